"""Measures what a learned loss does and what it is worth away from where it evolved, and speed."""
