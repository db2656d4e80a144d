"""Settings of Sphinx for `make docs`: pages in Markdown, API pages from the docstrings."""

project = "epg_tf"
copyright = "the authors of epg_tf"
extensions = ["autoapi.extension", "myst_parser", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "epg_tf"
default_role = "py:obj"
exclude_patterns = ["results"]

# The sources are read, not imported: TensorFlow need not be installed.
autoapi_dirs = ["../epg_tf"]
autoapi_root = "api"
autoapi_options = ["members", "show-module-summary"]
autoapi_python_class_content = "both"
autoapi_add_toctree_entry = False
autoapi_keep_files = False
myst_heading_anchors = 3
