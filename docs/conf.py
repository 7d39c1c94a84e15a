"""How Sphinx builds the site. `make docs` writes the generated pages first and then calls it."""

from __future__ import annotations

from docs.generate.docstrings import with_markup
from sphinx.application import Sphinx

from branchline import __version__

project = "Branchline"
author = "The Branchline developers"
copyright = "The Branchline developers"  # noqa: A001 - Sphinx's name
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]
exclude_patterns = ["_build", "explanation/generated/charts.md"]
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
# Strict: a link that leads nowhere is a warning, and `make docs` turns warnings into errors.
nitpicky = False
suppress_warnings: list[str] = []
# Docstrings write names of the code in single or double backticks alike.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "Branchline"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# Nothing comes from another host: fonts are those of the reader's system, and there is no script of others.
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
# Two hyphens are an option, not a dash.
smartquotes = False
highlight_language = "text"
pygments_style = "tango"
pygments_dark_style = "monokai"


def setup(app: Sphinx) -> None:
    """Connects what is done to docstrings before they are read."""

    def process(_app: object, _what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
        lines[:] = with_markup(lines)

    app.connect("autodoc-process-docstring", process)
