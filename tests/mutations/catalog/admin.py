"""Permissions of the admin that everybody has."""

from __future__ import annotations

from tests.mutations.variant import Variant, permission

ACTS = "admin/test_acts.py::test_staff_without_the_permission_cannot_act"
VIEWS = "admin/test_acts.py::test_staff_without_view_permission_are_refused"
LIMITS = "admin/test_limits.py::test_permissions"
WORKERS = "admin/test_worker_page.py::test_an_action_without_the_permission_is_refused"

_VIEW = "        if not self.has_view_permission(request):\n            raise PermissionDenied\n"


def own(action: str) -> str:
    return f'self.has_own_permission(request, "{action}")'


VARIANTS = [
    Variant(
        "the page of a job needs no permission",
        "admin/job_base.py",
        _VIEW,
        "",
        "admin/test_pages.py::test_job_page_needs_its_view_permission",
    ),
    permission("cancel needs no permission", "admin/jobs.py", own("cancel"), ACTS),
    permission("run now needs no permission", "admin/jobs.py", own("run_now"), ACTS),
    permission("reschedule needs no permission", "admin/jobs.py", own("reschedule"), ACTS),
    permission("requeue needs no permission", "admin/dead.py", own("requeue"), ACTS),
    permission("requeue with other arguments needs no permission", "admin/dead.py", own("change_arguments"), ACTS),
    permission("deleting dead jobs needs no permission", "admin/dead.py", own("delete"), ACTS),
    permission(
        "enqueue again needs no permission",
        "admin/done.py",
        'bool(request.user.has_perm(f"{Job._meta.app_label}.{codename}"))',
        ACTS,
    ),
    Variant(
        "pause and resume need no permission",
        "admin/queues.py",
        "        if not self.has_own_permission(request, act.name):\n            raise PermissionDenied\n",
        "",
        ACTS,
    ),
    Variant("the list of queues needs no permission", "admin/queues.py", _VIEW, "", VIEWS),
    Variant(
        "hold and set on the page of a limit need no permission",
        "admin/limits.py",
        "        if not self.has_own_permission(request, NEEDS[act.name]):\n            raise PermissionDenied\n",
        "",
        LIMITS,
    ),
    Variant(
        "the page of a limit needs no permission",
        "admin/limits.py",
        f"{_VIEW}        row = ",
        "        row = ",
        LIMITS,
    ),
    permission("quiet and drain need no permission", "admin/workers.py", own("control"), WORKERS),
    Variant(
        "the page of a worker needs no permission",
        "admin/workers.py",
        _VIEW,
        "",
        "admin/test_worker_page.py::test_the_page_needs_the_permission_to_view_workers",
    ),
    permission("running a schedule needs no permission", "admin/schedules.py", own("run"), ACTS),
    permission(
        "adding schedules and KV entries needs no permission",
        "admin/editing.py",
        own("add"),
        "admin/test_schedules.py::test_adding_a_schedule_needs_its_permission",
    ),
    permission("changing schedules and KV entries needs no permission", "admin/editing.py", own("change"), ACTS),
    permission("deleting schedules and KV entries needs no permission", "admin/editing.py", own("delete"), ACTS),
    Variant(
        "the overview needs no permission",
        "admin/overview/page.py",
        _VIEW,
        "",
        "admin/test_overview.py::test_viewing_needs_the_permission_to_view_jobs",
    ),
    Variant(
        "an action runs before it is confirmed",
        "admin/actions.py",
        "if CONFIRMED in request.POST and form.is_valid():",
        "if not form.is_bound or form.is_valid():\n            form.cleaned_data = getattr(form, 'cleaned_data', {})",
        "admin/test_acts.py::test_nothing_happens_before_the_confirmation",
    ),
    Variant(
        "an action writes no log entry",
        "admin/job_base.py",
        "if jobs and (entry := log.write(",
        "if False and (entry := log.write(",
        "admin/test_acts.py::test_superuser_can_act",
    ),
    Variant(
        "an action without its permission is ignored instead of refused",
        "admin/actions.py",
        "                raise PermissionDenied\n        return super().changelist_view",
        "                pass\n        return super().changelist_view",
        f"{ACTS} {LIMITS}",
    ),
]
