"""Signals about jobs, sent with send_robust() after the change is committed.

Arguments of all signals: `sender` (the registered Task, or None if it is unknown), `job`, `name`, `id`, `attempt`.
"""

from __future__ import annotations

from django.dispatch import Signal

job_queued = Signal()  # a job was enqueued, requeued or created by a schedule
job_started = Signal()  # an attempt started
job_completed = Signal()  # a job succeeded; with result
job_failed = Signal()  # an attempt failed; with error
job_retrying = Signal()  # after job_failed, if the job will be retried; attempt is the next one; with error, delay
job_dead_letter = Signal()  # after job_failed, if the job is dead; with error
job_cancelled = Signal()  # a job was cancelled, by a call or by its task
