"""Base of the lists and pages of live, done and dead jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from djqueue.conf import config
from djqueue.core import masking
from djqueue.models import QueueState
from djqueue.states import Status

from . import display, job_page, latest_jobs, log, search, timeline
from .actions import FROM_PAGE, Act, ActingAdmin, Tally
from .log import TABLES
from .paginator import CAP

NOTES = "_djqueue_notes"


class JobFieldsAdmin(ActingAdmin):
    """Columns, search, actions and detail page common to live, done and dead jobs."""

    search_fields = ("id",)  # enables the search box; search.py parses the text
    search_help_text = _(
        "Search by id, by part of a task or queue name, by text of the last error (also as error:text), or by argument "
        "as name:value (order_id:42). Errors and arguments are searched in the newest 50,000 jobs that match the "
        "filters."
    )
    json_columns = ("args", "kwargs")
    unread_columns: ClassVar[tuple[str, ...]] = ("headers", "errors", "progress", "retry")
    act_fields: ClassVar[tuple[str, ...]] = ("id", "task", "queue")
    acts: ClassVar[tuple[Act, ...]] = ()
    on_page: ClassVar[dict[str, Any]] = {}  # by action name: whether a job's page offers it

    # The list

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        notes: list[Any] = []
        setattr(request, NOTES, notes)
        return super().changelist_view(request, {"notes": notes, **(extra_context or {})})

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        asked = search.parse(search_term)
        found, notes = search.run(queryset, asked)
        notes += [note for job_id in asked.ids if (note := self.elsewhere_note(job_id))]
        getattr(request, NOTES, [])[:] = notes
        return found, False

    def elsewhere_note(self, job_id: UUID) -> Any:
        model = self.elsewhere(job_id)
        url = model and self.url("change", quote(job_id), model=model)
        if not model or not url:
            return ""
        return format_html(
            gettext('Job {} is in the list of {}: <a href="{}">show it</a>.'),
            job_id,
            model._meta.verbose_name_plural,
            url,
        )

    def elsewhere(self, job_id: UUID) -> Any:
        """Return the model of another table that contains the job, or None."""
        for model in TABLES:
            if model is not self.model and model._base_manager.using(config().database).filter(pk=job_id).exists():
                return model
        return None

    @admin.display(description=_("task and id"))
    def task_column(self, obj: Any) -> str:
        short = str(obj.pk)[-12:]  # the random part: ids made at the same time begin alike
        return format_html('{} <span class="djq-id" title="{}">{}</span>', display.dotted(obj.task), obj.pk, short)

    @admin.display(description=_("state"))
    def status_column(self, obj: Any) -> str:
        return display.status(obj)

    @admin.display(description=_("queue"))
    def queue_column(self, obj: Any) -> str:
        return str(obj.queue)

    @admin.display(description=_("arguments"))
    def arguments_column(self, obj: Any) -> str:
        args, kwargs = masking.masked(obj.task, obj.short_args, obj.short_kwargs)
        return format_html('<span class="djq-mono">{}</span>', display.short_arguments(args, kwargs))

    @admin.display(description=_("attempt"))
    def attempts_column(self, obj: Any) -> str:
        return f"{obj.attempts}/{obj.max_attempts}"

    @admin.display(description=_("wait time"))
    def wait_column(self, obj: Any) -> str:
        return display.between(max(obj.run_at, obj.enqueued_at), obj.claimed_at)

    @admin.display(description=_("enqueued"))
    def enqueued_column(self, obj: Any) -> str:
        return display.ago(obj.enqueued_at)

    @admin.display(description=_("worker"))
    def worker_column(self, obj: Any) -> str:
        return obj.worker_ids[-1] if obj.worker_ids else display.NOTHING

    @admin.display(description=_("error"))
    def error_column(self, obj: Any) -> str:
        hidden = masking.hide(obj.last_error, masking.secrets(obj.task, obj.short_args, obj.short_kwargs))
        return Truncator(hidden.strip().partition("\n")[0]).chars(90)

    # Actions

    def after_batch(
        self, request: HttpRequest, act: Act, rows: Sequence[Any], changed: Mapping[Any, str], tally: Tally
    ) -> None:
        """Log the action as one entry for all jobs, and count their queues."""
        user = cast(int, request.user.pk)
        for name, result in act.results.items():
            jobs = [row for row in rows if changed.get(row.pk) == name]
            tally.queues.update(job.queue for job in jobs)
            if jobs and (entry := log.write(user, act.flag, str(result.logged), jobs, tally.entries.get(name))):
                tally.entries[name] = entry

    def sampled(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self.for_list(queryset)

    def describe(self, row: Any) -> str:
        shown = self.arguments_column(row)
        return format_html('{} ({}) <span class="djq-id">{}</span>', display.dotted(row.task), shown, row.pk)

    def notes_before(self, queryset: QuerySet[Any], act: Act) -> list[str]:
        paused = paused_queues() if act.enqueues else []
        if not paused:
            return []
        return paused_notes(Counter(queryset.filter(queue__in=paused).values_list("queue", flat=True)[:CAP]))

    def report(self, request: HttpRequest, act: Act, tally: Tally) -> None:
        super().report(request, act, tally)
        paused = paused_queues() if act.enqueues and tally.queues else []
        for note in paused_notes(Counter({queue: tally.queues[queue] for queue in paused if queue in tally.queues})):
            self.message_user(request, note, messages.WARNING)

    # The page of one job

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        job = self.get_object(request, unquote(object_id))
        if job is None:
            return self.follow(request, unquote(object_id))
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request, "admin/djqueue/job.html", {**self.page_context(request, job), **(extra_context or {})}
        )

    def follow(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Redirect to the table that the job is in now: it may have moved since the link was made."""
        job_id = search.as_uuid(object_id)
        model = self.elsewhere(job_id) if job_id else None
        if job_id and model and (url := self.url("change", quote(job_id), model=model)):
            return HttpResponseRedirect(url)
        gone = gettext("Job %(id)s does not exist, or is no longer kept.") % {"id": object_id}
        self.message_user(request, gone, messages.WARNING)
        return HttpResponseRedirect(self.url("changelist"))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the log entries of a job from all tables, latest first."""
        job_id = search.as_uuid(unquote(object_id))
        if job_id is None:
            return self.follow(request, unquote(object_id))
        page = Paginator(log.history(job_id), log.MOST_HISTORY).get_page(1)
        context = {"action_list": page, "pagination_required": False}
        return super().history_view(request, object_id, context | (extra_context or {}))

    def page_context(self, request: HttpRequest, job: Any) -> dict[str, Any]:
        args, kwargs = masking.masked(job.task, job.args, job.kwargs)
        secrets = masking.secrets(job.task, job.args, job.kwargs)
        situation = job_page.situation_of(job)
        return {
            **self.admin_site.each_context(request),
            "title": job.task,
            "heading": display.dotted(job.task),
            "subtitle": None,
            "original": job,
            "opts": self.opts,
            "has_view_permission": True,
            "media": self.media,
            "job": job,
            "status": display.status(job),
            "explanation": job_page.explanation(situation),
            "estimate": job_page.estimate(situation),
            "facts": self.facts(job, job_page.Links(self, request)),
            "latest": latest_jobs.of_task(self, request, job),
            "timeline": timeline.timeline(job, log.history(job.pk)),
            "held": job.status == Status.CLAIMED.value,
            "attempts": timeline.attempts(job, secrets),
            "progress": timeline.progress(masking.hide_in(job.progress, secrets)),
            "hidden": bool(job.args or job.kwargs) and masking.is_unknown(job.task),
            "values": self.values(job, args, kwargs, secrets),
            "last_error": masking.hide(job.last_error, secrets),
            "acts": self.acts_on_page(request, job),
            "acts_url": self.url("changelist"),
            "history_url": self.url("history", quote(job.pk)),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "from_page": FROM_PAGE,
        }

    def values(self, job: Any, args: Any, kwargs: Any, secrets: list[str]) -> list[tuple[Any, str]]:
        shown = [(_("Arguments"), args), (_("Named arguments"), kwargs), (_("Headers"), job.headers)]
        if job.result is not None:
            shown.append((_("Result"), job.result))
        if job.progress is not None and timeline.progress(job.progress) is None:
            shown.append((_("Progress"), job.progress))
        return [
            (title, display.pretty_json(masking.hide_in(value, secrets)))
            for title, value in shown
            if value not in ([], {})
        ]

    def facts(self, job: Any, links: job_page.Links) -> list[tuple[Any, Any]]:
        facts: list[tuple[Any, Any]] = [
            (_("Id"), format_html("<code>{}</code>", job.pk)),
            (_("Queue"), links.queue(job.queue)),
            (_("Priority"), job.priority),
            (_("Attempt"), f"{job.attempts}/{job.max_attempts}"),
            (_("Workers"), links.workers(job.worker_ids)),
            (_("Dedup key"), job.dedup_key),
            (_("Limit key"), links.limit(job.limit_key)),
            (_("Schedule"), links.schedule(job.schedule)),
            (_("Slot"), job.slot and display.instant(job.slot)),
            (_("Retry policy"), job.retry and display.short_json(job.retry, 200)),
            (_("Timeout"), job.timeout and display.duration(job.timeout)),
            (_("Lease"), job.lease and display.duration(job.lease)),
            (_("Crashes"), job.crashes),
            (_("Cancel requested"), _("yes") if job.cancel_requested else ""),
        ]
        return [(label, value) for label, value in facts if value not in (None, "", 0)]

    def acts_on_page(self, request: HttpRequest, job: Any) -> list[Act]:
        allowed = self.get_actions(request)
        return [act for act in self.acts if act.name in allowed and self.on_page.get(act.name, _always)(job)]


def _always(job: Any) -> bool:
    return True


def paused_queues() -> list[str]:
    return list(QueueState.objects.using(config().database).filter(paused=True).values_list("queue", flat=True))


def paused_notes(counts: Counter[str]) -> list[str]:
    """Say which jobs will not run, because their queue is paused."""
    return [
        ngettext(
            "%(count)s job is in the queue “%(queue)s”, which is paused. It runs when the queue is resumed.",
            "%(count)s jobs are in the queue “%(queue)s”, which is paused. They run when the queue is resumed.",
            count,
        )
        % {"count": f"{count}+" if count == CAP else count, "queue": queue}
        for queue, count in sorted(counts.items())
    ]
