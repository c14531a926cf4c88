"""Text that is safe to print and has a known width, whatever a job's row contains."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

# Characters by which a text could control the terminal or change the order in which it is shown: C0 and C1 controls,
# line separators, bidirectional controls and other format characters (but not the joiners of letters and emoji),
# surrogates.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
ELLIPSIS = "…"


def clean(text: object) -> str:
    """Return one line of text in which control characters are written as escapes, such as \\x1b."""
    return _CONTROL.sub(lambda found: _escape(found[0]), str(text))


def clean_json(text: str) -> str:
    """Return JSON in which control characters are escaped; its own line breaks are kept."""
    return _CONTROL.sub(lambda found: found[0] if found[0] == "\n" else _json_escape(found[0]), text)


def lines(text: str) -> list[str]:
    """Return the cleaned lines of a text."""
    return [clean(line.expandtabs(4)) for line in text.splitlines()]


def first_line(text: str) -> str:
    return clean(text.strip().partition("\n")[0])


def width(text: str) -> int:
    """Return how many columns of a terminal a cleaned text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def cut(text: str, room: int, *, keep_end: bool = False) -> str:
    """Return a text of at most this width; an ellipsis stands for what was cut off."""
    if width(text) <= room:
        return text
    if room < 1:
        return ""
    kept = _head(reversed(text), room - 1)[::-1] if keep_end else _head(text, room - 1)
    return f"{ELLIPSIS}{kept}" if keep_end else f"{kept}{ELLIPSIS}"


def near(name: str, known: Iterable[str]) -> str:
    """Return a question with the names that are most like this one, or nothing."""
    names = sorted(known)
    found = difflib.get_close_matches(name, names, 3)
    if not found:  # by the function, without its module
        ends = {other.rpartition(".")[2]: other for other in names}
        found = [ends[end] for end in difflib.get_close_matches(name.rpartition(".")[2], ends, 3)]
    return f" Did you mean {' or '.join(map(clean, found))}?" if found else ""


def _head(text: Iterable[str], room: int) -> str:
    kept = []
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept)


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(character: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or _hex(character)


def _hex(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
