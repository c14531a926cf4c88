"""Values in the texts of errors."""

from __future__ import annotations

from uuid import UUID

LENGTH = 80


def shown(value: object) -> str:
    """Return the beginning of the repr of a value; never raises, whatever the value is."""
    try:
        return repr(value)[:LENGTH]
    except Exception:  # a very long integer, a very deep list, or a class whose repr() is broken
        return f"a value of type {type(value).__name__}"


def shown_id(value: object) -> str:
    """Return the beginning of the id of a job, as a person types it."""
    text = str(value) if isinstance(value, str | UUID) else ""
    if not text or not text.isprintable():
        return shown(value)
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"
