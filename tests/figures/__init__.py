"""Tests of epg_tf/figures."""
