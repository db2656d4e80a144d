"""Trains fresh agents by any method on unseen tasks, and summarizes how they did."""
