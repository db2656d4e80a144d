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
napoleon_use_ivar = True
myst_heading_anchors = 3  # as on the usual hosts of repositories

# The source folder is the repository, so that links between its folders hold in the pages too.
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**", "results/README.md"]
exclude_patterns = [".*", "build", "configs", "epg_tf", "launch", "runs", "tests"]

# The modules are read, not imported, so neither TensorFlow nor MuJoCo is needed.
autoapi_dirs = [str(_PACKAGE)]
autoapi_root = "docs/api"
autoapi_options = ["members", "show-module-summary"]
autoapi_member_order = "bysource"
autoapi_add_toctree_entry = False

_SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:")


def _sources() -> dict[str, str]:
    """Returns name -> module of what `import epg_tf` offers."""
    stub = _PACKAGE / "__init__.pyi"
    tree = ast.parse((stub if stub.exists() else _PACKAGE / "__init__.py").read_text())
    return {
        alias.asname or alias.name: f"{'epg_tf.' * node.level}{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _front_page(lines: list[str]) -> list[str]:
    """Returns the docstring of `epg_tf`, with links at the start of its lines."""
    sources = _sources()

    def linked(match: re.Match) -> str:
        word = match[0]
        return f":py:obj:`{word} <{sources[word]}>`" if word in sources else word

    page: list[str] = []
    for line in lines:
        names, colon, meaning = line.partition(": ")
        if colon and re.match(r"  \w", line):
            line = f"* {re.sub(r'[A-Za-z_]+', linked, names.strip())}: {meaning}"
        page += [line, ""] if line.endswith(":") else [line]
    return page


def _escaped(line: str) -> str:
    """Returns a line of text in which bars are bars, and `O.` after a colon starts no list."""
    return re.sub(r": ([A-Z]\.)$", r": \\\1", line.replace("|", r"\|"))


def _marked_up(lines: list[str]) -> list[str]:
    """Returns a docstring with what Sphinx needs: blocks that are indented by four keep their lines
    (formulas, commands, tables), and bars are bars.
    """
    marked: list[str] = []
    section, block = "", False
    for line in lines:
        if line and not line.startswith(" "):
            section = line
        indented = line.startswith("    ") and section not in _SECTIONS
        if indented and not block:
            marked += ["::", ""]
        block = indented or (block and not line)
        marked.append(line if block else _escaped(line))
    return marked


def _process(app, what, name, obj, options, lines) -> None:
    """Handles the docstring of each object before napoleon does."""
    lines[:] = _front_page(lines) if name == "epg_tf" else _marked_up(lines)
    if what in ("attribute", "data"):
        lines.insert(0, "")  # or napoleon takes the words before a colon for a type


def setup(app) -> None:
    """Registers the handler."""
    app.connect("autodoc-process-docstring", _process, priority=400)
