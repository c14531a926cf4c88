"""The settings: what Django's system checks say about djqueue."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import ERROR, WARNING, run_checks

from djqueue.operations.codes import Code
from djqueue.operations.findings import Finding, Severity, Subject

# The tags of djqueue.checks, which is a layer above: the checks of settings and tasks, and those that query.
TAGS = ("djqueue", "djqueue_database")


def system_checks(database: str | None) -> Iterator[Finding]:
    """Run the checks of djqueue, also those for deployment; those that query only if a database is given."""
    tags = TAGS if database else TAGS[:1]
    databases = [database] if database else None
    for message in run_checks(tags=tags, include_deployment_checks=True, databases=databases):
        if message.level >= WARNING and not message.is_silenced():
            yield Finding(
                code=Code.SYSTEM_CHECK,
                severity=Severity.ERROR if message.level >= ERROR else Severity.WARNING,
                text=f"{message.id}: {message.msg}",
                remedy=message.hint or "",
                subject=Subject.SETTINGS,
                key=message.id or "",
            )
