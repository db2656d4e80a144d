"""Holds the tasks: families of randomised MuJoCo bodies, and the environments of Gymnasium."""
