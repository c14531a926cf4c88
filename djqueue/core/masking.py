"""Mask the sensitive arguments of tasks wherever they are displayed, including errors and tracebacks.

If a task is not registered in this process (renamed, removed, or of another release), its sensitive arguments are not
known here, and all of its arguments are masked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from . import registry, signatures, tags

MASK = "********"

# Shorter values are too common: masking them would make every text unreadable.
SHORTEST_TEXT = 4
SHORTEST_NUMBER = 6
LONGEST_NUMBER = 100  # digits before the point; a larger Decimal is written with an exponent


def is_unknown(task: str) -> bool:
    """Return whether all arguments of the task are masked because it is not registered here."""
    return registry.find(task) is None


def masked(task: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments for display; unreadable arguments of a task with secrets are masked as a whole."""
    if not _has_secrets(task):
        return args, kwargs
    shown_args = [MASK if secret else value for _, value, secret in _positional(task, args)] if _is_list(args) else MASK
    shown_kwargs = {k: MASK if s else v for k, v, s in _keyword(task, kwargs)} if isinstance(kwargs, dict) else MASK
    return shown_args, shown_kwargs


def unmasked(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], old_args: Any, old_kwargs: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Return edited arguments with every remaining mask replaced by the value that it hides.

    Raise KeyError, with the argument's name, for a mask that hides no value.
    """
    old = {name: value for name, value, secret in _arguments(task, old_args, old_kwargs) if secret}

    def back(name: str, value: Any, secret: bool) -> Any:
        return old[name] if secret and value == MASK else value

    return [back(*one) for one in _positional(task, args)], {one[0]: back(*one) for one in _keyword(task, kwargs)}


def visible(task: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments by name, without the sensitive ones."""
    return {name: value for name, value, secret in _arguments(task, args, kwargs) if name and not secret}


def secrets(task: str, args: Any, kwargs: Any) -> list[str]:
    """Return the texts to mask in errors and tracebacks, longest first."""
    if not _has_secrets(task):
        return []
    found: set[str] = set()
    for _, value, secret in [*_arguments(task, args, kwargs), *_defaults(task, args, kwargs)]:
        if secret:
            for text in _texts(value):
                found.update(_spellings(text))
    return sorted(found, key=len, reverse=True)


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret masked."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def hide_in(value: Any, secrets: Sequence[str]) -> Any:
    """Return a value with every secret masked in its texts."""
    if not secrets:
        return value
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, tags.UnstorableResult):
        return tags.UnstorableResult(value.type, hide(value.repr, secrets), hide(value.problem, secrets))
    if isinstance(value, dict):
        return {hide(str(key), secrets): hide_in(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [hide_in(item, secrets) for item in value]
    return MASK if any(text in secrets for text in _texts(value)) else value


def _has_secrets(task: str) -> bool:
    return is_unknown(task) or bool(registry.options(task).sensitive)


Argument = tuple[str, Any, bool]  # name, value, whether it is sensitive


def _arguments(task: str, args: Any, kwargs: Any) -> Iterator[Argument]:
    if _is_list(args):
        yield from _positional(task, args)
    if isinstance(kwargs, Mapping):
        yield from _keyword(task, kwargs)


def _positional(task: str, args: Sequence[Any]) -> Iterator[Argument]:
    if is_unknown(task):
        yield from ((f"args[{position}]", value, True) for position, value in enumerate(args))
        return
    sensitive = registry.options(task).sensitive
    names, rest, _ = _parameters(task)
    for position, value in enumerate(args):
        within = position < len(names)
        name = names[position] if within else f"{rest}[{position - len(names)}]" if rest else ""
        yield name, value, (names[position] if within else rest) in sensitive


def _keyword(task: str, kwargs: Mapping[str, Any]) -> Iterator[Argument]:
    unknown = is_unknown(task)
    sensitive = registry.options(task).sensitive
    names, _, more = _parameters(task)
    for name, value in kwargs.items():
        yield name, value, unknown or name in sensitive or (name not in names and more in sensitive)


def _defaults(task: str, args: Any, kwargs: Any) -> Iterator[Argument]:
    """Return the arguments that the call leaves to their defaults."""
    signature = signatures.of(task)
    if signature is not None and _is_list(args) and isinstance(kwargs, Mapping):
        sensitive = registry.options(task).sensitive
        for name, value in signature.unfilled(len(args), kwargs):
            yield name, value, name in sensitive


def _parameters(task: str) -> tuple[list[str], str, str]:
    """Return the names of the positional parameters, of *args and of **kwargs."""
    signature = signatures.of(task)
    return ([], "", "") if signature is None else (signature.positional, signature.rest, signature.more)


def _is_list(args: Any) -> bool:
    return isinstance(args, list | tuple)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= SHORTEST_TEXT:
            yield value
            # Some tracebacks indent a text of several lines line by line.
            yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * SHORTEST_TEXT)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float):
        if len(str(value)) >= SHORTEST_NUMBER:
            yield str(value)
    elif isinstance(value, tags.ModelReference):
        yield str(value)
        yield from _texts(value.pk)
    else:
        yield from _texts_of_kind(value)


def _texts_of_kind(value: Any) -> Iterator[str]:
    """Return the usual texts of a type that JSON lacks: as str(), repr(), in the row, and in a number's other forms."""
    kind = next((kind for kind in tags.KINDS.values() if isinstance(value, kind.type)), None)
    if kind is None:
        return
    found = [str(value), kind.dump(value)]
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < LONGEST_NUMBER:
        found.append(f"{value:f}")
    elif isinstance(value, timedelta):
        found.append(str(value.total_seconds()))
    elif isinstance(value, UUID):
        found.append(value.hex)
    elif isinstance(value, bytes):
        found += [value.decode(errors="replace"), value.hex(), repr(value)[2:-1]]
    yield repr(value)
    yield from (text for text in found if len(text) >= SHORTEST_NUMBER)


def _spellings(text: str) -> Iterator[str]:
    """Return the text as it is, and as repr() and JSON write it."""
    yield text
    yield repr(text)[1:-1]
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
