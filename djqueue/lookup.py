"""Look at one job."""

from __future__ import annotations

from uuid import UUID

from .exceptions import InvalidOption
from .options import job_id
from .records import JobRecord
from .sql import statements


def get_job(id: UUID | str) -> JobRecord | None:  # noqa: A002 - the contract's name
    """The job of that id, whatever table it is in; None when there is none, or when the id is malformed."""
    try:
        found = job_id(id)
    except InvalidOption:
        return None
    return statements().get(found)
