"""A key-value store for coordination between jobs: JSON values in the caller's transaction, with an optional expiry."""

from __future__ import annotations

from typing import Any

from .core.async_twins import twin
from .core.durations import Duration, seconds
from .core.payload import check_kv_key, decode, encode_kv
from .sql import kv as rows
from .sql import statements

_NULL = "null"


def get(key: str, default: Any = None) -> Any:
    """Return the value of a key; the default if it does not exist or has expired."""
    check_kv_key(key)
    text = rows.get(statements(), key)
    return default if text is None else decode(text)


def set(key: str, value: Any, expires_in: Duration | None = None) -> None:  # noqa: A001 - the contract's name
    """Set the value of a key; without `expires_in` it never expires."""
    check_kv_key(key)
    rows.put(
        statements(), key, encode_kv(key, value), None if expires_in is None else seconds(expires_in, "expires_in")
    )


def delete(key: str) -> bool:
    """Delete a key; return False if it did not exist."""
    check_kv_key(key)
    return rows.delete(statements(), key)


def compare_and_set(key: str, old: Any, new: Any) -> bool:
    """Set the value to `new` if it is `old`; return whether it was. None stands for a missing key."""
    check_kv_key(key)
    before, after = encode_kv(key, old), encode_kv(key, new)
    database = statements()
    if before == _NULL:
        return rows.get(database, key) in (None, _NULL) if after == _NULL else rows.create(database, key, after)
    if after == _NULL:
        return rows.remove(database, key, before)
    return rows.replace(database, key, before, after)


aget = twin(get)
aset = twin(set)
adelete = twin(delete)
acompare_and_set = twin(compare_and_set)
