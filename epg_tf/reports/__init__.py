"""Draws what runs and tests have found."""
