"""Encode and decode the JSON that rows store, within limits that hold on every database.

Arguments and results may also contain the types of `tags`; headers, progress and KV values are plain JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from djqueue.conf import MAX_KV_VALUE_SIZE, config
from djqueue.exceptions import InvalidOption, InvalidPayload, KvValueTooLarge, PayloadTooLarge

from . import signatures, tags
from .names import MAX_NAME
from .remedies import remedy
from .shown import shown

MAX_DEPTH = 100
# Python converts this many digits whatever sys.set_int_max_str_digits() is set to.
MAX_INT_DIGITS = 640
_MAX_INT = 10**MAX_INT_DIGITS
_SHORT_INT = 2**63

# PostgreSQL refuses NUL; all three databases refuse a lone surrogate, which has no UTF-8 form.
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")

# Cheap tests of a whole text, so that plain JSON is neither copied nor walked through for tags. Before each, the
# mark alone is searched for: a search for a quote, of which JSON is full, and the mark takes a hundred times as long.
_OPENED_MARK = f'{{"{tags.MARK}'
_QUOTED_MODEL = f'"{tags.MODEL}"'
_TAG = re.compile(rf'{{\s*"{re.escape(tags.MARK)}')  # JSON that is written by hand may contain spaces

_CONSTANTS = {None: "null", True: "true", False: "false"}
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def encode(value: Any, path: str) -> str:
    """Return a value as JSON text. Raise InvalidPayload, with the path of the bad part, if it cannot be stored."""
    _check(value, path)
    return _encode(value)


def encode_typed(value: Any, path: str) -> str:
    """Return a value of JSON and the types of `tags` as JSON text. Raise InvalidPayload if it cannot be stored."""
    if type(value) is list and (flat := _flat_text(value)) is not None:
        return flat
    try:
        text = encode(value, path)
        if tags.MARK not in text or _OPENED_MARK not in text:
            return text
    except InvalidPayload:
        pass  # not plain JSON: with tags, it may be storable
    return encode(tags.tagged(value, MAX_DEPTH), path)


def _flat_text(values: Sequence[Any]) -> str | None:
    """Return the JSON text of plain texts and short numbers, which most arguments are; None if there is anything else.

    It takes a third of the time of the encoder, and such a text needs no other check. It contains no tag, because a tag
    is a dictionary.
    """
    parts = []
    for value in values:
        kind = type(value)
        if kind is str:
            if not storable(value):
                return None
            parts.append(encode_basestring(value))
        elif kind is int:
            if not -_SHORT_INT < value < _SHORT_INT:
                return None
            parts.append(repr(value))
        elif value is None or kind is bool:
            parts.append(_CONSTANTS[value])
        else:
            return None
    return f"[{','.join(parts)}]"


def decode(text: str) -> Any:
    try:
        value, end = _scan(text, 0)  # what _decode() calls, without its search for white space
        if end == len(text):
            return value
    except StopIteration:
        pass  # not JSON: the error comes from _decode()
    return _decode(text)


def decode_typed(text: str) -> Any:
    """Return what `encode_typed` was given; a model instance is a ModelReference, and nothing is queried.

    Raise ValueError (InvalidPayload is one) or RecursionError for a text that was not written by it.
    """
    value = decode(text)
    return tags.untagged(value) if tags.MARK in text and _TAG.search(text) else value


def load(text: str) -> Any:
    """Return what `encode_typed` was given, with the current rows of its model instances."""
    if text == "{}":  # the keyword arguments of most jobs
        return {}
    if tags.MARK not in text:
        return decode(text)
    value = decode_typed(text)
    return tags.fetched(value) if has_models(text) else value


def has_models(text: str) -> bool:
    """Return whether `load` may query the database."""
    return tags.MARK in text and _QUOTED_MODEL in text


def canonical(value: Any, path: str) -> str:
    """Return a value as JSON text such that equal values have equal texts, so that SQL can compare them."""
    _check(value, path)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def encode_result(value: Any, limit: int) -> str | None:
    """Return the JSON text of what a task returned; None stays None."""
    if value is None:
        return None
    text = encode_typed(value, "result")
    check_size({"result": text}, limit)
    return text


class Encoded(NamedTuple):
    """The JSON texts of a job."""

    args: str
    kwargs: str = "{}"
    headers: str = "{}"


def encode_arguments(task: str, args: Sequence[Any], kwargs: Mapping[str, Any], headers: Mapping[str, Any]) -> Encoded:
    """Return the JSON texts of args, kwargs and headers. Raise InvalidPayload, naming the bad argument."""
    limit = config().max_payload_size
    if not kwargs and not headers and (flat := _flat_text(args)) is not None and 4 * len(flat) <= limit - 4:
        return Encoded(flat)  # most jobs, without the checks that such a text cannot fail
    try:
        encoded = Encoded(
            args=encode_typed(list(args), "args"),
            kwargs=encode_typed(dict(kwargs), "kwargs") if kwargs else "{}",
            headers=encode(dict(headers), "headers") if headers else "{}",
        )
        check_size(encoded._asdict(), limit)
    except InvalidPayload:
        # Encode the arguments one by one, for an error that names the parameter of the function.
        labelled = dict(_label_arguments(task, args, kwargs))
        texts = {label: encode_typed(value, label) for label, value in labelled.items()}
        texts[f"{task}: headers"] = encode(dict(headers), f"{task}: headers")
        check_size(texts, limit)
        raise
    return encoded


def encode_kv(key: str, value: Any) -> str:
    """Return the canonical JSON text of a KV value. Raise if the key or the value cannot be stored."""
    check_kv_key(key)
    text = canonical(value, f"kv[{key!r}]")
    size = len(text.encode())
    if size > MAX_KV_VALUE_SIZE:
        raise KvValueTooLarge(size, MAX_KV_VALUE_SIZE)
    return text


def check_kv_key(key: str) -> None:
    """Raise InvalidOption or InvalidPayload if a KV key cannot be stored."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_NAME:
        raise InvalidOption(f"KV key must be a string of 1 to {MAX_NAME} characters, got {shown(key)}")
    encode(key, "KV key")


def check_size(parts: Mapping[str, str], limit: int) -> None:
    """Raise PayloadTooLarge, naming the largest part, if all parts together exceed the limit."""
    # A character takes at most four bytes in UTF-8, so short texts need not be encoded to be measured.
    if 4 * sum(map(len, parts.values())) <= limit:
        return
    sizes = {name: len(text.encode()) for name, text in parts.items()}
    total = sum(sizes.values())
    if total > limit:
        name = max(sizes, key=sizes.__getitem__)
        raise PayloadTooLarge(
            f"{name} too large: {sizes[name]} of {total} bytes encoded (MAX_PAYLOAD_SIZE is {limit}). "
            "Store large data elsewhere and pass a reference."
        )


def storable(text: str) -> bool:
    """Return whether every database can store the text."""
    return "\x00" not in text if text.isascii() else _BAD_TEXT.search(text) is None


def safe_text(text: str, limit: int) -> str:
    """Return a text that every database can store, without its middle if it is longer than the limit."""
    text = _BAD_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters cut …\n{text[-half:]}"


class _Unstorable(Exception):
    """The problem of a value and the path to it, collected from the inside out."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.path: list[str] = []


def _check(value: Any, path: str) -> None:
    """Raise InvalidPayload for a value that would not be read back as it was written."""
    try:
        _walk(value, 0)
    except _Unstorable as bad:
        raise InvalidPayload(path + "".join(reversed(bad.path)) + bad.problem) from None


def _walk(value: Any, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _walk_text(value)
    elif isinstance(value, int):
        if not -_MAX_INT < value < _MAX_INT:
            raise _Unstorable(f" is an integer with more than {MAX_INT_DIGITS} digits. Pass it as a string.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _Unstorable(f" is {value!r}, which JSON cannot represent. Pass None, or a string.")
    elif not isinstance(value, list | tuple | dict):
        raise _Unstorable(f" is of type {type(value).__name__}, which cannot be stored. {remedy(value)}")
    elif depth >= MAX_DEPTH:
        raise _Unstorable(f" is nested deeper than {MAX_DEPTH} levels. Pass a flatter value.")
    elif isinstance(value, dict):
        _walk_object(value, depth)
    else:
        _walk_array(value, depth)


def _walk_array(items: list[Any] | tuple[Any, ...], depth: int) -> None:
    index = 0
    try:
        for index, item in enumerate(items):  # noqa: B007 - read if an item is refused
            _walk(item, depth + 1)
    except _Unstorable as bad:
        bad.path.append(f"[{index}]")
        raise


def _walk_object(items: dict[Any, Any], depth: int) -> None:
    key = ""
    try:
        for key, item in items.items():
            if not isinstance(key, str):
                raise _Unstorable(" is not a string; keys of JSON objects must be strings. Pass str(key).")
            _walk_text(key)
            _walk(item, depth + 1)
    except _Unstorable as bad:
        bad.path.append(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{shown(key)}]")
        raise


def _walk_text(text: str) -> None:
    found = _BAD_TEXT.search(text)
    if found is not None:
        name = "a NUL character" if found[0] == "\x00" else "a lone surrogate"
        raise _Unstorable(f" contains {name} at position {found.start()}, which databases cannot store. Remove it.")


def _label_arguments(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    signature = signatures.of(task)
    names = signature.positional if signature else []
    for index, value in enumerate(args):
        name = f" ({names[index]})" if index < len(names) else ""
        yield f"{task}: args[{index}]{name}", value
    for key, value in kwargs.items():
        yield f"{task}: kwargs[{key!r}]", value
