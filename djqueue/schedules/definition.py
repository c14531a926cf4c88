"""The definition of a schedule: when it fires, what it enqueues, and its policies for missed slots and overlaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from djqueue import conf
from djqueue.core import payload, registry, signatures
from djqueue.core.durations import Duration, seconds
from djqueue.core.options import check_queue, check_schedule_name, check_task_name, normal_run_at
from djqueue.core.registry import RegisteredTask
from djqueue.core.shown import shown
from djqueue.exceptions import InvalidArguments, InvalidOption, InvalidPayload
from djqueue.states import Misfire, Overlap

from .rules import Cron, Every, Rule, zone

SHORTEST_INTERVAL = 1.0
MOST_MISFIRES = 1000
INSTANT = timedelta(microseconds=1)
_PAST = datetime(2000, 1, 1, tzinfo=UTC)


class Given(TypedDict, total=False):
    """The keyword arguments of a definition; the name is a positional argument."""

    task: str | RegisteredTask
    cron: str | None
    every: Duration | None
    timezone: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    queue: str | None
    priority: int | None
    misfire: str
    misfire_cap: int
    overlap: str
    jitter: Duration
    starts_at: datetime | None
    ends_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A checked definition, with the names and the values of the row's columns."""

    name: str
    task: str
    cron: str = ""
    every: float | None = None
    timezone: str = "UTC"
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    queue: str = ""
    priority: int | None = None
    misfire: str = Misfire.ONCE.value
    misfire_cap: int = 100
    overlap: str = Overlap.ALLOW.value
    jitter: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def rule(self, anchor: datetime) -> Rule:
        """Return the rule of the slots; the slots of an interval are counted from the anchor."""
        return Cron(self.cron, self.timezone) if self.every is None else Every(self.every, anchor)

    def first_slot(self, now: datetime) -> datetime:
        """Return the first slot after now, and not before `starts_at`. Raise InvalidOption if there is none."""
        if self.every is not None and self.starts_at is None:
            return self.not_after_its_end(now + timedelta(seconds=self.every))
        start = self.starts_at or now
        return self.not_after_its_end(self.rule(start).next(max(now, start - INSTANT)))

    def not_after_its_end(self, slot: datetime) -> datetime:
        """Return the slot. Raise InvalidOption if it is after `ends_at`."""
        if self.ends_at is not None and slot > self.ends_at:
            raise InvalidOption(f"no slot is left: ends_at is {self.ends_at:%Y-%m-%d %H:%M:%S} UTC")
        return slot


FIELDS = [column.name for column in fields(Definition)]


def validate(name: str, **definition: Any) -> Definition:
    """Return the checked definition. Raise InvalidOption, with all problems, if it is not valid."""
    return _definition(name, *_read_with_known_task({"name": name, **definition}))


def problems(name: str, **definition: Any) -> dict[str, str]:
    """Return the problems of a definition by field, for forms."""
    return _read_with_known_task({"name": name, **definition})[1]


def define(given: Mapping[str, Any]) -> Definition:
    """Return the checked definition of a row. Its task may be unknown here: another release may have it."""
    return _definition(given["name"], *read(given))


def _definition(name: str, values: dict[str, Any], problems: dict[str, str]) -> Definition:
    if problems:
        raise InvalidOption(f"Schedule {shown(name)}: {'; '.join(problems.values())}")
    return Definition(**values)


def _read_with_known_task(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    values, problems = read(given)
    if "task" not in problems and registry.find(values["task"]) is None:
        problems["task"] = f"no task named {values['task']!r} is registered"
    if not problems:
        try:
            signatures.check(values["task"], len(values.get("args", ())), values.get("kwargs", {}))
        except InvalidArguments as error:
            problems["args"] = str(error)
    return values, problems


def read(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the columns, and their problems, both by column."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name in FIELDS:
        if name in given or name == "task":
            try:
                values[name] = _READERS[name](given.get(name))
            except InvalidOption as error:
                problems[name] = str(error)
    for name in given:
        if name not in FIELDS:
            problems[name] = f"Unknown option {name!r}. Valid options: {', '.join(FIELDS)}"
    try:
        if not problems:
            _check_together(values)
    except _Misfit as error:
        problems[error.name] = str(error)
    return values, problems


class _Misfit(Exception):
    """A problem of values that are valid alone but not together."""

    def __init__(self, name: str, problem: object) -> None:
        super().__init__(problem)
        self.name = name


def _check_together(values: dict[str, Any]) -> None:
    rule, every = values.get("cron", ""), values.get("every")
    if bool(rule) == (every is not None):
        raise _Misfit("cron", "set exactly one of cron and every")
    if rule:
        try:
            Cron(rule, values.get("timezone", "UTC")).next(_PAST)
        except InvalidOption as error:
            raise _Misfit("cron", error) from None
    starts_at, ends_at = values.get("starts_at"), values.get("ends_at")
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise _Misfit("ends_at", f"ends_at must not be before starts_at, got {ends_at} and {starts_at}")
    try:
        texts = {n: payload.encode_typed(value, n) for n, value in values.items() if n in ("args", "kwargs")}
        payload.check_size(texts, conf.config().max_payload_size)
    except InvalidPayload as error:
        raise _Misfit("args" if str(error).startswith("args") else "kwargs", error) from None
    # As they will be read: tuples become lists, model instances references.
    values |= {name: payload.decode_typed(text) for name, text in texts.items()}


def _name(value: Any) -> str:
    check_schedule_name(value)
    return str(value)


def _task(value: Any) -> str:
    name = value if isinstance(value, str) else getattr(value, "name", value)
    if name is None:
        raise InvalidOption("task is required")
    check_task_name(name)
    return str(name)


def _cron(value: Any) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        raise InvalidOption(f"cron must be a cron rule such as '*/5 * * * *', got {shown(value)}")
    return value


def _every(value: Any) -> float | None:
    if value is None:
        return None
    found = seconds(value, "every")
    if found < SHORTEST_INTERVAL:
        raise InvalidOption(f"every must be at least 1 second, got {found}")
    return found


def _timezone(value: Any) -> str:
    return zone(value).key


def _args(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidOption(f"args must be a list or tuple, got {type(value).__name__}")
    return list(value)


def _kwargs(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping | None):
        raise InvalidOption(f"kwargs must be a dictionary, got {type(value).__name__}")
    return dict(value or {})


def _queue(value: Any) -> str:
    if value is None or value == "":
        return ""
    check_queue(value)
    return str(value)


def _priority(value: Any) -> int | None:
    return None if value is None else conf.priority(value, "priority")


def _choice(kind: type[Misfire] | type[Overlap], name: str) -> Callable[[Any], str]:
    def reader(value: Any) -> str:
        if not isinstance(value, str) or value not in list(kind):
            raise InvalidOption(f"{name} must be one of {', '.join(kind)}, got {shown(value)}")
        return str(value)

    return reader


def _instant(name: str) -> Callable[[Any], datetime | None]:
    return lambda value: None if value is None else normal_run_at(value, name)


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "task": _task,
    "cron": _cron,
    "every": _every,
    "timezone": _timezone,
    "args": _args,
    "kwargs": _kwargs,
    "queue": _queue,
    "priority": _priority,
    "misfire": _choice(Misfire, "misfire"),
    "misfire_cap": lambda value: conf.whole(value, "misfire_cap", 1, MOST_MISFIRES),
    "overlap": _choice(Overlap, "overlap"),
    "jitter": lambda value: seconds(value, "jitter"),
    "starts_at": _instant("starts_at"),
    "ends_at": _instant("ends_at"),
}
