"""Check the arguments of a call against the signature of its task, prepared once per task."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import date, timedelta
from functools import cached_property
from typing import Any

from djqueue.exceptions import InvalidArguments

from . import registry
from .options import CallOptions

# Names under which users of other queues look for an option.
_OTHER_NAMES = {"countdown": "delay", "eta": "run_at", "max_retries": "max_attempts", "task_id": "id"}
_OPTIONS = {option.name: option.name for option in fields(CallOptions)} | _OTHER_NAMES
_KIND = inspect.Parameter


class _Default:
    """Stands for every default: its value may be long or sensitive."""

    def __repr__(self) -> str:
        return "..."


class Signature:
    """The parameters of a function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.inspected = inspect.signature(func)
        parameters = list(self.inspected.parameters.values())
        by_position = [p for p in parameters if p.kind in (_KIND.POSITIONAL_ONLY, _KIND.POSITIONAL_OR_KEYWORD)]
        by_name = [p for p in parameters if p.kind in (_KIND.POSITIONAL_OR_KEYWORD, _KIND.KEYWORD_ONLY)]
        self.positional = [p.name for p in by_position]
        self.named = {p.name: p for p in by_name}
        self.rest = next((p.name for p in parameters if p.kind == _KIND.VAR_POSITIONAL), "")
        self.more = next((p.name for p in parameters if p.kind == _KIND.VAR_KEYWORD), "")
        self.defaults = {p.name: p.default for p in parameters if p.default is not _KIND.empty}
        required = [p.name for p in by_position + by_name if p.name not in self.defaults]
        self.required = list(dict.fromkeys(required))
        # How many positional arguments suffice, and how many are accepted, in a call without named ones.
        self.least = float("inf") if any(name not in self.positional for name in self.required) else len(self.required)
        self.most = float("inf") if self.rest else len(self.positional)

    @cached_property
    def text(self) -> str:
        """The signature as it is shown in errors: names only."""
        shown = [
            p.replace(annotation=_KIND.empty, default=_Default() if p.name in self.defaults else _KIND.empty)
            for p in self.inspected.parameters.values()
        ]
        return str(self.inspected.replace(parameters=shown, return_annotation=inspect.Signature.empty))

    def mistakes(self, count: int, kwargs: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with a call of `count` positional arguments and these named ones."""
        if not kwargs and self.least <= count <= self.most:
            return []
        taken = self.positional[:count]
        found = [self._unexpected(name, kwargs) for name in kwargs if not self.more and name not in self.named]
        found += [f"{name!r} is given twice" for name in kwargs if name in taken and name in self.named]
        if count > self.most:
            found.append(f"at most {self.most} positional arguments are accepted, got {count}")
        missing = [
            repr(name) for name in self.required if name not in taken and (name not in kwargs or name not in self.named)
        ]
        if missing:
            found.append(f"missing {', '.join(missing)}")
        return found

    def unfilled(self, count: int, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Return the parameters for which a call uses the default, and the defaults."""
        taken = self.positional[:count]
        return ((name, value) for name, value in self.defaults.items() if name not in taken and name not in kwargs)

    def _unexpected(self, name: str, kwargs: Mapping[str, Any]) -> str:
        if name in self.positional:
            return f"{name!r} is positional-only"
        if (option := _OPTIONS.get(name)) is not None:
            task = getattr(self.func, "__name__", "task")
            return f"{name!r} is not an argument: use {task}.using({option}={_shown(kwargs[name])}).enqueue(...)"
        near = difflib.get_close_matches(str(name), [other for other in self.named if other not in kwargs], 1)
        return f"unexpected argument {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def of(task: str) -> Signature | None:
    """Return the signature of a task; None if it is not registered here, or has none that can be read."""
    registered = registry.find(task)
    if registered is None:
        return None
    known = _signatures.get(task)
    if known is None or known[0] is not registered.func:
        try:
            known = (registered.func, Signature(registered.func))
        except (TypeError, ValueError):
            known = (registered.func, None)
        _signatures[task] = known
    return known[1]


def check(task: str, count: int, kwargs: Mapping[str, Any]) -> None:
    """Raise InvalidArguments if the task is registered here and cannot be called with these arguments."""
    signature = of(task)
    if signature is not None and (mistakes := signature.mistakes(count, kwargs)):
        note = ""
        if hasattr(signature.func, "__wrapped__"):
            note = ". If a decorator of the task changes its arguments, it must set __signature__"
        raise InvalidArguments(f"Invalid arguments for {task}{signature.text}: {'; '.join(mistakes)}{note}.")


_signatures: dict[str, tuple[Callable[..., Any], Signature | None]] = {}


def _shown(value: Any) -> str:
    """Return the value of an option for a hint, if it cannot be sensitive."""
    return repr(value) if isinstance(value, int | float | date | timedelta) else "..."
