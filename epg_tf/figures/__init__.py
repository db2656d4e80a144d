"""The papers' figures and tables: what each needs, how it is drawn, and what is still missing."""
