"""Keeps a run on disk: folder, checkpoints, metrics, progress, resume; and studies."""
