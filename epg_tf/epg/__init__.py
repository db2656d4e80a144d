"""Evolved Policy Gradients: evolution strategies move a loss, with which agents learn."""
