"""What a job's page says about its surroundings: why it does not run, when it starts, and links."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from djqueue.conf import config
from djqueue.models import Job, LimitKey, Schedule, Worker
from djqueue.operations.estimate import start_times
from djqueue.operations.explain import Explanation, reasons
from djqueue.operations.situation import Situation
from djqueue.sql import statements

from . import display
from .base import QueueModelAdmin

MOST_WORKERS = 100


def situation_of(job: Any) -> Situation:
    return Situation(job, statements().now())


def explanation(situation: Situation) -> Explanation:
    return reasons.of(situation)


def estimate(situation: Situation) -> str:
    """Return when a waiting job starts, in words; an empty string if that is not known."""
    found = start_times.of(situation)
    if found.p50 is None or found.p90 is None or found.ahead is None:
        return ""
    text = ngettext(
        "Estimated start: in about %(p50)s, 9 times out of 10 within %(p90)s; %(count)s job ahead.",
        "Estimated start: in about %(p50)s, 9 times out of 10 within %(p90)s; %(count)s jobs ahead.",
        found.ahead,
    )
    times = {"p50": _about(found.p50), "p90": _about(found.p90)}
    return text % {**times, "count": f"{found.ahead:,}"}


def _about(seconds: float) -> str:
    """Return an estimated duration, which has no tenths of a second."""
    return gettext("%(count)d s") % {"count": ceil(seconds)} if seconds < 59.5 else display.duration(seconds)


class Links:
    """Links to other pages of this site that the user may view. What has no page is shown as text."""

    def __init__(self, page: QueueModelAdmin, request: HttpRequest) -> None:
        self.page, self.request = page, request
        self.alias = config().database

    def queue(self, name: str) -> str:
        """Return a link to the live jobs of a queue."""
        url = viewable(self.page, self.request, Job, "changelist")
        return link(f"{url}?{urlencode({'queue': name})}" if url else "", name)

    def schedule(self, name: str | None) -> str:
        pk = name and Schedule.objects.using(self.alias).filter(name=name).values_list("pk", flat=True).first()
        return link(viewable(self.page, self.request, Schedule, "change", pk) if pk else "", name or "")

    def limit(self, key: str | None) -> str:
        return link(viewable(self.page, self.request, LimitKey, "change", key) if key else "", key or "")

    def workers(self, identities: Sequence[str]) -> str:
        """Return the workers of all attempts, each linked if it still has a row."""
        shown = list(identities)[-MOST_WORKERS:]
        rows = Worker.objects.using(self.alias).filter(pk__in=set(shown)) if shown else Worker.objects.none()
        kept = set(rows.values_list("pk", flat=True))
        urls = {one: viewable(self.page, self.request, Worker, "change", one) for one in shown if one in kept}
        linked = ((link(urls.get(one, ""), one),) for one in shown)
        return format_html_join(", ", "{}", linked) if shown else ""


def viewable(page: QueueModelAdmin, request: HttpRequest, model: Any, view: str, *args: Any) -> str:
    """Return the URL of a page of this site; an empty string if it does not exist or the user may not view it."""
    registered = page.admin_site._registry.get(model)
    if registered is None or not registered.has_view_permission(request):
        return ""
    return page.url(view, *map(quote, args), model=model)


def link(url: str, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text) if url else format_html("{}", text)
