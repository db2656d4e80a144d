"""What a BUILD file says of its folder: one library, and a target for each command or test."""

load("@rules_python//python:defs.bzl", "py_binary", "py_library", "py_test")

PUBLIC = ["//visibility:public"]
NOT_FILES = ["**/__pycache__/**", "**/build/**", "**/_build/**"]

def all_files(folders = []):
    """Declares `all_files`: the files here and in `folders`, which have BUILD files."""
    native.filegroup(
        name = "all_files",
        srcs = native.glob(["**"], exclude = NOT_FILES) + [name + ":all_files" for name in folders],
        visibility = PUBLIC,
    )

def python_folder(deps = [], data = [], folders = []):
    """Declares `all_files`, and a library of the modules here, which has the folder's name."""
    all_files(folders)
    py_library(
        name = native.package_name().split("/")[-1],
        srcs = native.glob(["*.py"]),
        data = native.glob(["*.pyi", "py.typed"]) + data,
        visibility = PUBLIC,
        deps = deps,
    )

def module_commands(modules, deps):
    """Declares a command for each file: what `python -m` runs, in the folder of the user."""
    for path in modules:
        name = path[:-len(".py")]
        py_binary(
            name = name,
            srcs = [path, "//tools:run_module.py"],
            args = [native.package_name() + "." + name],
            legacy_create_init = 0,
            main = "//tools:run_module.py",
            deps = deps,
        )

def test_folder(deps, data = [], folders = []):
    """Declares the library of a folder of tests, without `deps`, and a target for each test."""
    python_folder(folders = folders)
    here = "//" + native.package_name()
    for path in native.glob(["test_*.py"]):
        py_test(
            name = path[:-len(".py")],
            timeout = "eternal",
            srcs = [path, "//tools:pytest_main.py"],
            args = [native.package_name() + "/" + path],
            data = ["//:pyproject.toml"] + data,
            legacy_create_init = 0,
            main = "//tools:pytest_main.py",
            deps = depset([here, "//tests", "//epg_tf/epg"] + deps).to_list(),
        )
