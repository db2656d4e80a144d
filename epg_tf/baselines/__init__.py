"""What learned losses are compared with, and the protocol of whatever trains fresh agents."""
