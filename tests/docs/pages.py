"""The pages of the documentation, and the code blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
]
TUTORIAL = ROOT / "docs" / "tutorial.md"
OTHER_QUEUES = "Celery|RQ|django-q2|procrastinate|huey|dramatiq|django-tasks-db"


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # of the first line of code
    language: str  # "" without one
    source: str
    comment: str = ""  # the HTML comment before it

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return not self.comment.startswith("not run:")

    @property
    def is_foreign(self) -> bool:
        """Whether it is code of another queue."""
        return re.match(f"# ({OTHER_QUEUES})\\b", self.source) is not None


def blocks(page: Path) -> Iterator[Block]:
    """Yield the code blocks of a page; one that is indented instead of fenced has no language."""
    comment = ""
    for token in MarkdownIt().enable("table").parse(page.read_text()):
        if token.type in ("fence", "code_block"):
            first = token.map[0] + (2 if token.type == "fence" else 1)
            yield Block(page, first, token.info.strip(), token.content, comment)
        if token.type == "html_block":
            comment = token.content.strip().removeprefix("<!--").removesuffix("-->").strip()
        else:
            comment = ""


BLOCKS = [block for page in PAGES for block in blocks(page)]
