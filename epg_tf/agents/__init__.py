"""What an agent is made of."""
