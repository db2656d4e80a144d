"""Experiments, one file each; name one with --config=configs/NAME.py."""
