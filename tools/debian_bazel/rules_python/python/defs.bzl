"""The Python rules that are built into Bazel 4, under the names of rules_python."""

py_binary = native.py_binary
py_library = native.py_library
py_test = native.py_test
