"""What learned losses are compared with, and the protocol of all methods that train agents."""
