"""What is wrong, in the form that the overview, the doctor and the health check share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"  # jobs do not run, or may be lost
    WARNING = "warning"  # jobs run late, or soon will not run


class Subject(StrEnum):
    """What a finding is about. The overview links to it."""

    QUEUE = "queue"  # key: its name
    TASK = "task"  # key: its name
    JOB = "job"  # key: its id
    WORKER = "worker"  # key: its identity
    SCHEDULE = "schedule"  # key: its name
    DATABASE = "database"  # key: its alias
    SETTINGS = "settings"  # key: the setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, with numbers, and what to do about it."""

    code: str
    severity: Severity
    text: str  # one sentence that states the fact
    remedy: str  # one or two sentences
    subject: Subject
    key: str = ""
