"""What a run leaves: checkpoints, losses, metrics and plots."""
