"""A filter that adds the current job to log records."""

from __future__ import annotations

import logging

from .current import _current

FIELDS = ("job_id", "task", "queue", "attempt")


class JobFilter(logging.Filter):
    """Add `job_id`, `task`, `queue` and `attempt` to every record; outside of a job they are empty strings.

    A record that has one of them already, from `extra` or from this filter in another thread, keeps it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        job = _current.get()
        values = ("", "", "", "") if job is None else (str(job.id), job.task, job.queue, job.attempt)
        for name, value in zip(FIELDS, values, strict=True):
            record.__dict__.setdefault(name, value)
        return True
