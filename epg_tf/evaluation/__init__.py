"""Trains fresh agents by any method on unseen tasks; tabulates and summarizes what they did."""
