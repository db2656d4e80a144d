"""Saves, loads, exports and checks what was learned: losses, objectives, policies."""
