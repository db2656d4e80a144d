"""What is learned, and the hand-made losses it is compared with."""
