"""Build the documentation as HTML: `make docs`.

The source folder is the root of the repository, so that a link to README.md or CHANGELOG.md leads to a page, and is
checked like a link between two pages of docs/. The pages are plain Markdown, which reads the same on GitHub.
"""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ANCHOR = r'^<a id="([^"]+)"></a>$'
TARGETS = {target for page in DOCS.rglob("*.md") for target in re.findall(ANCHOR, page.read_text(), re.MULTILINE)}
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]

project = "djqueue"
release = metadata.version("django-djqueue")
author = PROJECT["authors"][0]["name"]
project_copyright = author

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
exclude_patterns = ["docs/_build", ".*", "benchmarks", "djqueue", "example_project", "tests"]

myst_heading_anchors = 4  # as on GitHub

html_theme = "furo"
html_title = f"djqueue {release}"
html_extra_path = ["_html"]  # index.html, which leads to docs/index.html
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def contents(index: str) -> str:
    """Return hidden tables of contents, one for each section of index.md, in the order of its links.

    Pages in the folder of a section that are not linked yet follow in alphabetical order.
    """
    tables = []
    for section in index.split("\n## ")[1:]:
        pages = re.findall(r"^- \[[^]]+\]\((\S+\.md)\)", section, re.MULTILINE)
        folders = {DOCS / page.partition("/")[0] for page in pages if re.match(r"\w+/", page)}
        found = sorted(page.relative_to(DOCS).as_posix() for folder in folders for page in folder.glob("*.md"))
        entries = "\n".join(dict.fromkeys(pages + found))
        tables.append(f"```{{toctree}}\n:hidden:\n:caption: {section.splitlines()[0]}\n\n{entries}\n```\n")
    return "\n".join(tables)


def adapt(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add what a page cannot contain, because GitHub would show it as text: the side bar, and targets for links."""
    if docname == root_doc:
        source[0] += "\n" + contents(source[0])
    source[0] = re.sub(ANCHOR, r"(\1)=", source[0], flags=re.MULTILINE)
    source[0] = re.sub(
        r"\]\([\w./]+\.md#([^)]+)\)", lambda link: f"](#{link[1]})" if link[1] in TARGETS else link[0], source[0]
    )


def setup(app: Sphinx) -> None:
    app.connect("source-read", adapt)
    app.add_lexer("mermaid", TextLexer)  # GitHub draws it; here it is shown as text
