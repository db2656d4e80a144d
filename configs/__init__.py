"""Experiments, one file each; name one with --config=NAME."""
