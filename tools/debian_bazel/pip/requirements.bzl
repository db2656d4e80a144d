"""What rules_python's pip.parse defines, for packages that the interpreter has installed."""

def requirement(name):
    """Returns the target of a pip package; it has no files."""
    return "@pip//:installed"
