"""Commands; run one with `python -m launch.NAME --help`."""
