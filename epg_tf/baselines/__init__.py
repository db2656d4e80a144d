"""What learned losses are compared with, from libraries that have the algorithm."""
