"""What agents live in: randomised MuJoCo task families, and the environments of Gymnasium."""
