"""Small coordination state: JSON under a key, in your transaction, with an optional expiry; no queue state."""

from __future__ import annotations

from typing import Any

from .durations import Duration, seconds
from .lifecycle.enqueue import check_kv_key, encode_kv
from .payload import decode
from .sql import kv as rows
from .sql import statements
from .twins import twin

_NULL = "null"


def get(key: str, default: Any = None) -> Any:
    """The value under the key; the default when it is absent or expired."""
    check_kv_key(key)
    text = rows.get(statements(), key)
    return default if text is None else decode(text)


def set(key: str, value: Any, expires_in: Duration | None = None) -> None:  # noqa: A001 - the contract's name
    """Write the value; without `expires_in` it stays for ever."""
    check_kv_key(key)
    rows.put(
        statements(), key, encode_kv(key, value), None if expires_in is None else seconds(expires_in, "expires_in")
    )


def delete(key: str) -> bool:
    """Delete the key; False when it was absent."""
    check_kv_key(key)
    return rows.delete(statements(), key)


def compare_and_set(key: str, old: Any, new: Any) -> bool:
    """Write `new` if the value is `old`, and tell whether it was. None stands for absent, on both sides."""
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
