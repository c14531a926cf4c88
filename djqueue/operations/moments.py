"""Times as the sentences of this package write them."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from djqueue.core.durations import in_words


def moment(at: datetime | None, now: datetime) -> str:
    """Return a time of day, with its date unless it is today's, and how far away it is: 12:03 UTC (4 min ago)."""
    if at is None:  # a row that was edited by hand
        return _("an unknown time")
    local = timezone.localtime(at)
    today = local.date() == timezone.localtime(now).date()
    seconds = (now - at).total_seconds()
    distance = _("%(time)s ago") if seconds >= 0 else _("in %(time)s")
    shown = date_format(local, "H:i T" if today else "Y-m-d H:i T")
    return f"{shown} ({distance % {'time': in_words(abs(seconds))}})"
