"""Runs a module as `python -m` does; the main of every command that Bazel runs.

The first argument is the module. `bazel run` starts programs in a folder of Bazel; paths that users
give are relative to theirs.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    sys.path.pop(0)  # the folder of this file
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
