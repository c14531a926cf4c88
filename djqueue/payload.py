"""JSON in and out of rows, with limits that hold on every database and in every reader."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from .exceptions import InvalidPayload, PayloadTooLarge

MAX_DEPTH = 100
# Every Python converts this many digits, however sys.set_int_max_str_digits was set.
MAX_INT_DIGITS = 640
_MAX_INT = 10**MAX_INT_DIGITS

# NUL is refused by PostgreSQL; a lone surrogate has no UTF-8 form and is refused by all three.
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: Any, path: str) -> str:
    """Encode a value as JSON text, or raise InvalidPayload with the path of the part that cannot be."""
    _check(value, path)
    return _encode(value)


def decode(text: str) -> Any:
    return json.loads(text)


def canonical(value: Any, path: str) -> str:
    """Encode so that equal values give equal text: for comparing inside a statement."""
    _check(value, path)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def encode_result(value: Any, limit: int) -> str | None:
    """Encode what a task returned; None is no result."""
    if value is None:
        return None
    text = encode(value, "result")
    check_size({"result": text}, limit)
    return text


def check_size(parts: Mapping[str, str], limit: int) -> None:
    """Raise PayloadTooLarge, naming the largest part, when all parts together exceed the limit."""
    # Four bytes is the longest UTF-8 form of a character: short texts need no encoding to be measured.
    if 4 * sum(map(len, parts.values())) <= limit:
        return
    sizes = {name: len(text.encode()) for name, text in parts.items()}
    total = sum(sizes.values())
    if total > limit:
        name = max(sizes, key=sizes.__getitem__)
        raise PayloadTooLarge(
            f"{name} takes {sizes[name]} bytes of {total} encoded; MAX_PAYLOAD_SIZE allows {limit}. "
            "Store large data elsewhere and pass a reference."
        )


def safe_text(text: str, limit: int) -> str:
    """Make a text storable everywhere and cut its middle out when it is longer than the limit."""
    text = _BAD_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters cut …\n{text[-half:]}"


class _Unstorable(Exception):
    """What is wrong with a value, and the way to it, collected from the inside out."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.way: list[str] = []


def _check(value: Any, path: str) -> None:
    """Refuse what would not come back the same."""
    try:
        _walk(value, 0)
    except _Unstorable as bad:
        raise InvalidPayload(path + "".join(reversed(bad.way)) + bad.problem) from None


def _walk(value: Any, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _walk_text(value)
    elif isinstance(value, int):
        if not -_MAX_INT < value < _MAX_INT:
            raise _Unstorable(f" is a number of more than {MAX_INT_DIGITS} digits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _Unstorable(f" is {value!r}, which JSON cannot hold")
    elif not isinstance(value, list | tuple | dict):
        raise _Unstorable(f" is of type {type(value).__name__}, which JSON cannot hold")
    elif depth >= MAX_DEPTH:
        raise _Unstorable(f" is nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, dict):
        _walk_object(value, depth)
    else:
        _walk_array(value, depth)


def _walk_array(items: list[Any] | tuple[Any, ...], depth: int) -> None:
    index = 0
    try:
        for index, item in enumerate(items):  # noqa: B007 - read when an item is refused
            _walk(item, depth + 1)
    except _Unstorable as bad:
        bad.way.append(f"[{index}]")
        raise


def _walk_object(items: dict[Any, Any], depth: int) -> None:
    key = ""
    try:
        for key, item in items.items():
            if not isinstance(key, str):
                raise _Unstorable(" is not a string, as the keys of JSON objects are")
            _walk_text(key)
            _walk(item, depth + 1)
    except _Unstorable as bad:
        bad.way.append(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r:.80}]")
        raise


def _walk_text(text: str) -> None:
    found = _BAD_TEXT.search(text)
    if found is not None:
        name = "a NUL character" if found[0] == "\x00" else "a lone surrogate"
        raise _Unstorable(f" contains {name} at position {found.start()}, which databases cannot hold")
