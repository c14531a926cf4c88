"""Tables and blocks of the reference whose facts come from the code, and whose explanations are written by hand.

A table stands between two comments, `<!-- name: begin -->` and `<!-- name: end -->`. The first cell of a row is a name;
the next cells are facts, and the rest is prose. With DJQUEUE_WRITE_DOCS=1, a check writes the facts and keeps the
prose.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITES = bool(os.environ.get("DJQUEUE_WRITE_DOCS"))
REMEDY = "run this test with DJQUEUE_WRITE_DOCS=1, and complete the prose"

Facts = Mapping[str, Sequence[str]]


def check_table(page: str, name: str, facts: Facts) -> None:
    """Compare the rows of a table with facts by name: none missing, none extra, in this order, and all explained."""
    head, lines, tail = _table(page, name)
    rows = {_plain(cells[0]): cells for cells in map(_cells, lines[2:])}
    expected = []
    for first, known in facts.items():
        more = rows.get(first, [""] * len(_cells(lines[0])))[1 + len(known) :]
        expected.append(_line([f"`{first}`", *map(_escaped, known), *more]))
    if WRITES:
        (DOCS / page).write_text(head + "\n".join([*lines[:2], *expected]) + "\n" + tail)
        return
    assert lines[2:] == expected, f"docs/{page}, table {name}: {REMEDY}"
    for cells in rows.values():
        assert all(cells[1 + len(next(iter(facts.values()))) :]), f"docs/{page}: {cells[0]} is not explained"


def check_blocks(page: str, blocks: Mapping[str, str]) -> None:
    """Compare the first `pyi` block below each heading of level 3 with what is expected for the heading."""
    text = (DOCS / page).read_text()
    for heading, block in blocks.items():
        expected = f"### {heading}\n\n```pyi\n{block}\n```\n"
        if WRITES and f"\n### {heading}\n" not in text:
            text += f"\n{expected}"
        elif WRITES:
            found = rf"^### {re.escape(heading)}\n\n(```pyi\n.*?^```\n|(?!```))"
            text = re.sub(
                found,
                lambda m, new=expected: new if m[1] else f"{new}\n",
                text,
                count=1,
                flags=re.MULTILINE | re.DOTALL,
            )
        else:
            assert expected in text, f"docs/{page}, {heading}: {REMEDY}\n{expected}"
    if WRITES:
        (DOCS / page).write_text(text)
    shown = re.findall(r"^### (.+)\n\n```pyi$", text, re.MULTILINE)
    assert sorted(shown) == sorted(blocks), f"docs/{page}: {set(shown) ^ set(blocks)}"


def _table(page: str, name: str) -> tuple[str, list[str], str]:
    text = (DOCS / page).read_text()
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    assert text.count(begin) == text.count(end) == 1, f"docs/{page} needs {begin.strip()} and {end} once"
    head, _, rest = text.partition(begin)
    body, _, tail = rest.partition(end)
    return head + begin, body.strip().splitlines(), end + tail


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def _plain(cell: str) -> str:
    return cell.strip("`").replace(r"\|", "|")
