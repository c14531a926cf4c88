"""Links of the overview: only to pages that the site has and the user may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.admin.utils import quote
from django.utils.http import urlencode

from djqueue.models import Job, QueueState, Schedule, Worker
from djqueue.operations.findings import Finding, Subject


class Links:
    def __init__(self, admin: Any, may: frozenset[str]) -> None:
        self.admin, self.may = admin, may

    def rows(self, model: Any, **query: Any) -> str:
        """Return the URL of a filtered list, or an empty string."""
        url = self._url("changelist", model=model)
        return f"{url}?{urlencode(query)}" if url and query else url

    def page(self, model: Any, pk: Any) -> str:
        return self._url("change", quote(pk), model=model) if pk else ""

    def subject(self, finding: Finding, schedules: Mapping[str, Any]) -> str:
        """Return the URL of what a finding is about."""
        key = finding.key
        match finding.subject:
            case Subject.QUEUE:
                return self.rows(QueueState, q=key) if key else self.rows(QueueState)
            case Subject.TASK:
                return self.rows(Job, task=key)
            case Subject.JOB:
                return self.page(Job, key)
            case Subject.WORKER:
                return self.page(Worker, key)
            case Subject.SCHEDULE:
                return self.page(Schedule, schedules.get(key))
        return ""

    def _url(self, view: str, *args: Any, model: Any) -> str:
        allowed = f"view_{model._meta.model_name}" in self.may
        return str(self.admin.url(view, *args, model=model)) if allowed else ""
