"""Arguments that a task calls sensitive: masked wherever a person can look, errors and tracebacks included."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import registry

MASK = "********"

# Shorter ones are words and numbers of everyday: masking them would garble every text.
SHORTEST_TEXT = 4
SHORTEST_NUMBER = 6


def masked(task: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments as they may be shown; what cannot be read of a task with secrets is masked as a whole."""
    if not registry.options(task).sensitive:
        return args, kwargs
    shown_args = [MASK if secret else value for _, value, secret in _positional(task, args)] if _is_list(args) else MASK
    shown_kwargs = {k: MASK if s else v for k, v, s in _keyword(task, kwargs)} if isinstance(kwargs, dict) else MASK
    return shown_args, shown_kwargs


def unmasked(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], old_args: Any, old_kwargs: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that were edited under their masks: a mask that was left stands for the value that it hid.

    Raises KeyError, with the argument's name, for a mask that hides nothing.
    """
    old = {name: value for name, value, secret in _arguments(task, old_args, old_kwargs) if secret}

    def back(name: str, value: Any, secret: bool) -> Any:
        return old[name] if secret and value == MASK else value

    return [back(*one) for one in _positional(task, args)], {one[0]: back(*one) for one in _keyword(task, kwargs)}


def visible(task: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments by name, without the sensitive ones."""
    return {name: value for name, value, secret in _arguments(task, args, kwargs) if name and not secret}


def secrets(task: str, args: Any, kwargs: Any) -> list[str]:
    """The texts to look for where a sensitive value may have been written, longest first."""
    if not registry.options(task).sensitive:
        return []
    found: set[str] = set()
    for _, value, secret in _arguments(task, args, kwargs):
        if secret:
            for text in _texts(value):
                found.update(_spellings(text))
    return sorted(found, key=len, reverse=True)


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret masked."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def hide_in(value: Any, secrets: Sequence[str]) -> Any:
    """A JSON value with every secret masked in its texts."""
    if not secrets:
        return value
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, dict):
        return {hide(str(key), secrets): hide_in(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [hide_in(item, secrets) for item in value]
    return MASK if str(value) in secrets else value


Argument = tuple[str, Any, bool]  # name, value, whether it is sensitive


def _arguments(task: str, args: Any, kwargs: Any) -> Iterator[Argument]:
    if _is_list(args):
        yield from _positional(task, args)
    if isinstance(kwargs, Mapping):
        yield from _keyword(task, kwargs)


def _positional(task: str, args: Sequence[Any]) -> Iterator[Argument]:
    sensitive = registry.options(task).sensitive
    names, rest, _ = _signature(task)
    for position, value in enumerate(args):
        within = position < len(names)
        name = names[position] if within else f"{rest}[{position - len(names)}]" if rest else ""
        yield name, value, (names[position] if within else rest) in sensitive


def _keyword(task: str, kwargs: Mapping[str, Any]) -> Iterator[Argument]:
    sensitive = registry.options(task).sensitive
    names, _, more = _signature(task)
    for name, value in kwargs.items():
        yield name, value, name in sensitive or (name not in names and more in sensitive)


def _signature(task: str) -> tuple[list[str], str, str]:
    """The names that positional arguments have, and those of *rest and **more."""
    registered = registry.find(task)
    try:
        parameters = list(inspect.signature(registered.func).parameters.values()) if registered else []
    except (TypeError, ValueError):
        parameters = []
    kinds = inspect.Parameter
    return (
        [p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)],
        next((p.name for p in parameters if p.kind == kinds.VAR_POSITIONAL), ""),
        next((p.name for p in parameters if p.kind == kinds.VAR_KEYWORD), ""),
    )


def _is_list(args: Any) -> bool:
    return isinstance(args, list | tuple)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= SHORTEST_TEXT:
            yield value
            # A text of many lines is indented, line by line, in some tracebacks.
            yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * SHORTEST_TEXT)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float) and len(str(value)) >= SHORTEST_NUMBER:
        yield str(value)


def _spellings(text: str) -> Iterator[str]:
    """As it is, and as repr() and JSON write it."""
    yield text
    yield repr(text)[1:-1]
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
