"""Links of the overview: only to pages that the site has and the user may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote as urlquote

from django.contrib.admin.utils import quote
from django.utils.http import urlencode

from djqueue.models import Job, QueueState, Schedule, Worker
from djqueue.operations.findings import Finding, Subject


class Links:
    def __init__(self, admin: Any, may: frozenset[str]) -> None:
        self.admin, self.may = admin, may
        self._known: dict[tuple[str, Any], str] = {}  # to reverse a URL is slow

    def rows(self, model: Any, **query: Any) -> str:
        """Return the URL of a filtered list, or an empty string."""
        url = self._url("changelist", model)
        return f"{url}?{urlencode(query)}" if url and query else url

    def page(self, model: Any, pk: Any) -> str:
        url = self._url("change", model, "PK") if pk else ""
        return "/".join([*url.split("/")[:-3], urlquote(str(quote(pk))), "change", ""]) if url else ""

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

    def _url(self, view: str, model: Any, *args: str) -> str:
        if (view, model) not in self._known:
            allowed = f"view_{model._meta.model_name}" in self.may
            self._known[view, model] = str(self.admin.url(view, *args, model=model)) if allowed else ""
        return self._known[view, model]
