"""Signals of a job's life, sent robustly after the change has committed.

Each is sent with `sender` (the registered Task, or None for an unknown one), `job`, `name`, `id`, `attempt`.
"""

from __future__ import annotations

from django.dispatch import Signal

job_queued = Signal()  # a job was enqueued, requeued or fired by a schedule
job_started = Signal()  # a worker begins an attempt
job_completed = Signal()  # with result
job_failed = Signal()  # an attempt failed; with error
job_retrying = Signal()  # follows job_failed; attempt is the next one; with error, delay
job_dead_letter = Signal()  # follows job_failed; with error
job_cancelled = Signal()  # ended as cancelled, by a person or by the task
