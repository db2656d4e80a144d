"""Settings of Sphinx for `make docs`: pages in Markdown, API pages from the docstrings."""

import ast
import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1] / "epg_tf"

project = "epg_tf"
html_title = "epg_tf"
html_theme = "furo"
extensions = ["autoapi.extension", "myst_parser", "sphinx.ext.napoleon"]
default_role = "py:obj"  # names in single backticks become links where they are known
myst_heading_anchors = 3  # as on the usual hosts of repositories

# The sources are read, not imported, so neither TensorFlow nor MuJoCo is needed.
autoapi_dirs = [str(_PACKAGE)]
autoapi_root = "api"
autoapi_options = ["members", "show-module-summary"]
autoapi_member_order = "bysource"
autoapi_add_toctree_entry = False


def _sources() -> dict[str, str]:
    """Returns name -> module of what `import epg_tf` offers."""
    stub = _PACKAGE / "__init__.pyi"
    tree = ast.parse((stub if stub.exists() else _PACKAGE / "__init__.py").read_text())
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _link_names(app, what, name, obj, options, lines) -> None:
    """Turns the names at the start of lines of the front page into links to what they are."""
    if name != "epg_tf":
        return
    sources = _sources()

    def linked(match: re.Match) -> str:
        word = match[0]
        return f":py:obj:`{word} <{sources[word]}>`" if word in sources else word

    for number, line in enumerate(lines):
        start, colon, rest = line.partition(": ")
        if colon and line.startswith("  "):
            lines[number] = f"  * {re.sub(r'[A-Za-z_]+', linked, start.strip())}: {rest}"
        elif line.endswith(":") and not line.startswith(" "):
            lines[number] = f"{line}\n"


def setup(app) -> None:
    """Registers the handler."""
    app.connect("autodoc-process-docstring", _link_names, priority=400)  # before napoleon
