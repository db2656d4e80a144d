"""Commands: `python -m launch.NAME` in a checkout, `epg-tf NAME` where the package is installed."""
