"""The algorithms of the papers; start reading here."""
