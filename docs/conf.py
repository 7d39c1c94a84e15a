"""Configuration of Sphinx. `make docs` generates pages with `docs.generate` before it runs Sphinx."""

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
# A broken link is a warning, and `make docs` turns warnings into errors.
nitpicky = False
suppress_warnings: list[str] = []
# Single backticks mark code in docstrings, like double backticks.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "Branchline"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# The site must not load fonts or scripts from other hosts.
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
# Keep the two hyphens of options, which smart quotes would turn into a dash.
smartquotes = False
highlight_language = "text"
pygments_style = "tango"
pygments_dark_style = "monokai"


def setup(app: Sphinx) -> None:
    """Add markup to docstrings before autodoc renders them."""

    def process(_app: object, _what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
        lines[:] = with_markup(lines)

    app.connect("autodoc-process-docstring", process)
