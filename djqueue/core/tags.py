"""The argument types that JSON lacks, stored as a JSON object with one key: {"$decimal": "9.90"}.

Every dictionary that looks like a tag is stored as {"$dict": …}, so that it is read back as it was given.
Reading a tag neither imports nor queries anything: a model instance becomes a ModelReference.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.apps import apps
from django.db.models import Model
from django.utils.dateparse import parse_duration
from django.utils.duration import duration_string

from djqueue.exceptions import InvalidPayload

from .async_twins import refuse_event_loop, twin

MARK = "$"
DICT, MODEL, UNSTORABLE = "$dict", "$model", "$unstorable"


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model instance in the arguments or the result of a job. Its row is read by `get`, or when the job runs."""

    label: str  # such as "shop.Order"
    database: str
    pk: Any

    def __str__(self) -> str:
        return f"{self.label} {self.pk}"

    def get(self) -> Model:
        """Read the row. Raise DoesNotExist if it is gone, InvalidPayload if the model is not installed."""
        refuse_event_loop()
        try:
            model: Any = apps.get_model(self.label)
        except (LookupError, ValueError):
            raise InvalidPayload(f"Unknown model {self.label!r:.80}: no installed app defines it.") from None
        try:
            return model._base_manager.using(self.database).get(pk=self.pk)  # type: ignore[no-any-return]
        except model.DoesNotExist:
            raise model.DoesNotExist(f"{self} does not exist in the database {self.database!r:.80}.") from None

    aget = twin(get)


@dataclass(frozen=True, slots=True)
class UnstorableResult:
    """Stands for the result of a task that could not be stored."""

    type: str  # dotted path of the class
    repr: str  # cut
    problem: str


class Kind(NamedTuple):
    """A type that is stored as text."""

    type: type
    dump: Callable[[Any], str]
    load: Callable[[str], Any]


def is_tag(value: dict[Any, Any]) -> bool:
    """Return whether a dictionary has the form of a tag."""
    return len(value) == 1 and isinstance(key := next(iter(value)), str) and key.startswith(MARK)


def tagged(value: Any, levels: int) -> Any:
    """Return a copy with tags in place of other types; a value that no tag can represent is left as it is.

    What is nested deeper than the levels is not looked at.
    """
    if value is None or levels < 0 or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        items = {key: tagged(item, levels - 1) for key, item in value.items()}
        return {DICT: items} if is_tag(items) else items
    if isinstance(value, list | tuple):
        return [tagged(item, levels - 1) for item in value]
    return _tag(value)


def untagged(value: Any) -> Any:
    """Return a JSON value with its tags replaced by what they stand for. Raise InvalidPayload for an invalid tag."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if is_tag(value):
        [(name, content)] = value.items()
        return _load(name, content)
    return {key: untagged(item) for key, item in value.items()}


def fetched(value: Any) -> Any:
    """Return a copy with the rows that its references name."""
    if isinstance(value, ModelReference):
        return value.get()
    if isinstance(value, list):
        return [fetched(item) for item in value]
    if isinstance(value, dict):
        return {key: fetched(item) for key, item in value.items()}
    return value


def is_saved(instance: Model) -> bool:
    """Return whether the instance can be read again, by the model that is installed under its label."""
    state, meta = instance._state, instance._meta
    saved = not state.adding and state.db is not None and instance.pk is not None
    return saved and apps.all_models.get(meta.app_label, {}).get(str(meta.model_name)) is meta.model


def _tag(value: Any) -> Any:
    if isinstance(value, ModelReference):
        return {MODEL: [value.label, value.database, tagged(value.pk, 1)]}
    if isinstance(value, UnstorableResult):
        return {UNSTORABLE: [value.type, value.repr, value.problem]}
    if isinstance(value, Model):
        meta = value._meta
        return _tag(ModelReference(meta.label, str(value._state.db), value.pk)) if is_saved(value) else value
    for name, kind in KINDS.items():
        if isinstance(value, kind.type):
            return {name: kind.dump(value)} if type(value) is kind.type or _is_kept(value, kind) else value
    return value


def _is_kept(value: Any, kind: Kind) -> bool:
    """Return whether a subclass, which is read back as its base class, keeps its value: nanoseconds would be lost."""
    try:
        return bool(kind.load(kind.dump(value)) == value)
    except Exception:
        return False


def _load(name: str, content: Any) -> Any:
    if name == DICT and isinstance(content, dict):
        return {key: untagged(item) for key, item in content.items()}
    if name == MODEL and _is_list(content, str, str, object):
        return ModelReference(content[0], content[1], untagged(content[2]))
    if name == UNSTORABLE and _is_list(content, str, str, str):
        return UnstorableResult(*content)
    if name in KINDS and isinstance(content, str):
        try:
            return KINDS[name].load(content)
        except (ValueError, ArithmeticError, LookupError, OSError):
            pass  # reported below
    if name in TAGS:  # the content may be sensitive: the message does not contain it
        raise InvalidPayload(f"Invalid tag {name!r} in the stored JSON: its value cannot be read.")
    raise InvalidPayload(
        f"Unknown tag {name!r:.80} in the stored JSON. Valid tags: {', '.join(TAGS)}. A dictionary with a single key "
        f'that begins with "{MARK}" is written as {{"{DICT}": {{…}}}}.'
    )


def _is_list(content: Any, *types: type) -> bool:
    return (
        isinstance(content, list)
        and len(content) == len(types)
        and all(isinstance(item, kind) for item, kind in zip(content, types, strict=True))
    )


# An ISO 8601 time, the name of its zone if it has one, and whether it is the later of two equal times.
_MOMENT = re.compile(r"([^\[\]]+)(?:\[([^\[\]=]+)\])?(\[fold=1\])?")


def _dump_moment(value: datetime | time) -> str:
    key = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) and _is_installed(value.tzinfo.key) else None
    plain: Any = value.replace(tzinfo=None) if key else value
    text = (datetime if isinstance(value, datetime) else time).isoformat(plain)
    return text + (f"[{key}]" if key else "") + ("[fold=1]" if value.fold else "")


def _is_installed(key: str | None) -> bool:
    try:
        return key is not None and bool(ZoneInfo(key))
    except (ValueError, LookupError, OSError):
        return False


def _load_moment(kind: type[datetime] | type[time]) -> Callable[[str], datetime | time]:
    def load(text: str) -> datetime | time:
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError("not an ISO 8601 time")
        value: Any = kind.fromisoformat(found[1])
        if found[2]:
            if value.tzinfo is not None:
                raise ValueError("both an offset and a zone")
            value = value.replace(tzinfo=ZoneInfo(found[2]))
        return value.replace(fold=1) if found[3] else value  # type: ignore[no-any-return]

    return load


def _load_timedelta(text: str) -> timedelta:
    value = parse_duration(text)
    if value is None:
        raise ValueError("not a duration")
    return value


# A datetime is a date, so its kind comes first.
KINDS: dict[str, Kind] = {
    "$datetime": Kind(datetime, _dump_moment, _load_moment(datetime)),
    "$date": Kind(date, date.isoformat, date.fromisoformat),
    "$time": Kind(time, _dump_moment, _load_moment(time)),
    "$timedelta": Kind(timedelta, duration_string, _load_timedelta),
    "$uuid": Kind(UUID, str, UUID),
    "$decimal": Kind(Decimal, str, Decimal),
    "$bytes": Kind(bytes, lambda value: b64encode(value).decode(), lambda text: b64decode(text, validate=True)),
}
TAGS = [*KINDS, MODEL, UNSTORABLE, DICT]
