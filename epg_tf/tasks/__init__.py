"""What agents live in: randomised MuJoCo task families."""
