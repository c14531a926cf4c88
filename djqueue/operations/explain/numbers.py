"""Numbers of jobs in the sentences of `explain`."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from djqueue.operations.situation import MOST_COUNTED


def number(count: int) -> str:
    """Return a number of jobs, which are counted up to a limit."""
    return f"{count:,}" if count <= MOST_COUNTED else _("more than %(count)s") % {"count": f"{MOST_COUNTED:,}"}


def jobs_ahead(count: int) -> str:
    """Return how many jobs are ahead of a job, as a clause."""
    if not count:
        return _("no job is ahead of it")
    text = ngettext("%(count)s job is ahead of it", "%(count)s jobs are ahead of it", count)
    return text % {"count": number(count)}
