"""The tables. Only `djqueue.lifecycle` writes job state; everything else reads these or calls it."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CanonicalJSONField, ExactCharField, ExactTextField, JSONLinesField, JSONTextField, WordsField
from .indexes import StatusIndex, UniqueWhereSet
from .states import DedupUntil, Status

NAME = 255  # task names, kv keys, dedup keys, worker identities
QUEUE = 128


def empty_list() -> list[Any]:
    return []


class JobFields(models.Model):
    """What a job keeps in whatever table it is: it moves whole, in the statement that settles it."""

    id = models.UUIDField(primary_key=True)
    task = ExactCharField(_("task"), max_length=NAME)
    queue = ExactCharField(_("queue"), max_length=QUEUE)
    priority = models.IntegerField(_("priority"))  # lower runs first
    args = JSONTextField(_("args"), default=list)
    kwargs = JSONTextField(_("kwargs"), default=dict)
    headers = JSONTextField(_("headers"), default=dict)
    attempts = models.IntegerField(_("attempts"), default=0, db_default=0)  # counted at claim
    max_attempts = models.IntegerField(_("max attempts"))
    run_at = models.DateTimeField(_("run at"))  # not before; of a retry, its time
    enqueued_at = models.DateTimeField(_("enqueued at"))  # place within the priority; a retry keeps it
    started_at = models.DateTimeField(_("started at"), null=True)  # first attempt
    last_attempted_at = models.DateTimeField(_("last attempted at"), null=True)
    claimed_at = models.DateTimeField(_("claimed at"), null=True)
    failed_at = models.DateTimeField(_("failed at"), null=True)  # last failure; of a dead job, its death
    last_error = ExactTextField(_("last error"), default="", db_default="")  # the bare text
    errors = JSONLinesField(_("errors"), default=empty_list, db_default="")  # an entry per failed attempt
    worker_ids = WordsField(_("workers"), default=empty_list, db_default="")  # one per attempt
    progress = JSONTextField(_("progress"), null=True)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False, db_default=False)
    dedup_key = ExactCharField(_("dedup key"), max_length=NAME, null=True)  # NULL once released
    retry = JSONTextField(_("retry policy"), null=True)  # only when the call gave one, like timeout and lease
    timeout = models.FloatField(_("timeout"), null=True)
    lease = models.FloatField(_("lease"), null=True)
    crashes = models.IntegerField(_("crashes"), default=0, db_default=0)  # attempts that took their process down
    schedule = ExactCharField(_("schedule"), max_length=NAME, null=True)  # name of the rule that enqueued it
    slot = models.DateTimeField(_("slot"), null=True)  # the nominal time of that firing

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.task} {self.id}"


class Job(JobFields):
    """Live jobs only: scheduled, pending, claimed."""

    completed_at = result = None  # what every row of a job can be asked for, in whatever table it is

    status = ExactCharField(_("status"), max_length=9, choices=[(s.value, s.label) for s in Status][:3])
    token = models.UUIDField(null=True)  # names the claim; only its holder may settle the job
    worker = ExactCharField(_("worker"), max_length=NAME, default="", db_default="")  # who holds it
    lease_expires_at = models.DateTimeField(_("lease expires at"), null=True)  # in no index: renewals stay cheap
    started = models.BooleanField(default=False, db_default=False)  # this claim has begun to run
    returns = models.IntegerField(default=0, db_default=0)  # attempts given back by the reaper, at most three
    unknown_since = models.DateTimeField(null=True)  # first seen by a worker that does not know the task
    dedup_until = ExactCharField(max_length=7, default=DedupUntil.CLAIMED.value, db_default=DedupUntil.CLAIMED.value)

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions = [
            ("run_now_job", "Can run jobs now"),
            ("cancel_job", "Can cancel jobs"),
            ("reschedule_job", "Can change the priority and time of jobs"),
        ]
        indexes = [
            # Exactly the claim's WHERE and ORDER BY.
            StatusIndex(
                status=Status.PENDING.value,
                fields=["queue", "priority", "enqueued_at", "id"],
                name="djqueue_job_claim",
            ),
            # The promoter's: what is due, not what is stored.
            StatusIndex(status=Status.SCHEDULED.value, fields=["run_at", "id"], name="djqueue_job_due"),
            # The reaper's: claimed rows are few.
            StatusIndex(status=Status.CLAIMED.value, fields=["id"], name="djqueue_job_claimed"),
        ]
        constraints = [
            UniqueWhereSet(fields=["queue", "dedup_key"], name="djqueue_job_dedup"),
            UniqueWhereSet(fields=["schedule", "slot"], name="djqueue_job_slot"),
        ]


class DoneJob(JobFields):
    """Done and cancelled jobs, kept for KEEP_DONE."""

    lease_expires_at = None

    status = ExactCharField(
        _("status"),
        max_length=9,
        choices=[(s.value, s.label) for s in (Status.DONE, Status.CANCELLED)],
    )
    completed_at = models.DateTimeField(_("completed at"))
    result = JSONTextField(_("result"), null=True)

    class Meta:
        verbose_name = _("done job")
        verbose_name_plural = _("done jobs")
        indexes = [models.Index(fields=["queue", "completed_at"], name="djqueue_done_sweep")]


class DeadJob(JobFields):
    """Dead letters, kept for KEEP_DEAD; `failed_at` is when the job died."""

    lease_expires_at = completed_at = result = None

    class Meta:
        verbose_name = _("dead job")
        verbose_name_plural = _("dead jobs")
        permissions = [
            ("requeue_deadjob", "Can requeue dead jobs"),
            ("change_arguments_deadjob", "Can requeue dead jobs with other arguments"),
        ]
        indexes = [
            models.Index(fields=["failed_at"], name="djqueue_dead_sweep"),
            models.Index(fields=["queue", "id"], name="djqueue_dead_queue"),
            # The admin's: all dead jobs of one task, latest first. Few jobs die, so it costs little.
            models.Index(fields=["task", "failed_at"], name="djqueue_dead_task"),
        ]

    @property
    def status(self) -> Status:
        return Status.DEAD


class KV(models.Model):
    """Small coordination state of the user's; never touched by the queue itself."""

    key = ExactCharField(_("key"), max_length=NAME, primary_key=True)
    value = CanonicalJSONField(_("value"), null=True)
    updated_at = models.DateTimeField(_("updated at"))
    expires_at = models.DateTimeField(_("expires at"), null=True, db_index=True)

    class Meta:
        verbose_name = _("KV entry")
        verbose_name_plural = _("KV entries")

    def __str__(self) -> str:
        return str(self.key)


class Schedule(models.Model):
    """A cron rule or an interval that enqueues jobs."""

    name = ExactCharField(_("name"), max_length=NAME, unique=True)
    task = ExactCharField(_("task"), max_length=NAME)
    cron = models.CharField(_("cron rule"), max_length=255, default="", db_default="", blank=True)
    every = models.FloatField(_("every (seconds)"), null=True, blank=True)
    timezone = models.CharField(_("time zone"), max_length=64, default="UTC", db_default="UTC")
    args = JSONTextField(_("args"), default=list)
    kwargs = JSONTextField(_("kwargs"), default=dict)
    queue = ExactCharField(_("queue"), max_length=QUEUE, default="", db_default="", blank=True)  # empty: the task's
    priority = models.IntegerField(_("priority"), null=True, blank=True)
    misfire = models.CharField(_("misfire"), max_length=8, default="once", db_default="once")
    misfire_cap = models.IntegerField(_("misfire cap"), default=100, db_default=100)
    overlap = models.CharField(_("overlap"), max_length=8, default="allow", db_default="allow")
    jitter = models.FloatField(_("jitter (seconds)"), default=0, db_default=0)
    starts_at = models.DateTimeField(_("starts at"), null=True, blank=True)
    ends_at = models.DateTimeField(_("ends at"), null=True, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True, db_default=True)  # the operator's switch
    from_code = models.BooleanField(_("from code"), default=False, db_default=False)
    removed_from_code = models.BooleanField(_("removed from code"), default=False, db_default=False)
    problem = models.TextField(_("problem"), default="", db_default="", blank=True)  # why it disabled itself
    next_at = models.DateTimeField(_("next at"), null=True, blank=True)
    last_at = models.DateTimeField(_("last at"), null=True, blank=True)
    last_job_id = models.UUIDField(_("last job"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("run_schedule", "Can run schedules now")]
        indexes = [models.Index(fields=["enabled", "next_at"], name="djqueue_schedule_next")]

    def __str__(self) -> str:
        return str(self.name)


class Worker(models.Model):
    """One worker process of one boot; its identity never comes back."""

    identity = ExactCharField(_("identity"), max_length=NAME, primary_key=True)
    name = models.CharField(_("name"), max_length=NAME, default="", db_default="")
    supervisor = ExactCharField(_("supervisor"), max_length=NAME, default="", db_default="")
    host = models.CharField(_("host"), max_length=255)
    pid = models.IntegerField(_("process id"))
    queues = JSONTextField(_("queues"), default=list)
    threads = models.IntegerField(_("threads"), default=1, db_default=1)
    running = models.IntegerField(_("running"), default=0, db_default=0)
    finished = models.BigIntegerField(_("finished"), default=0, db_default=0)
    memory = models.BigIntegerField(_("memory"), default=0, db_default=0)  # bytes resident
    version = models.CharField(_("version"), max_length=32, default="", db_default="")
    draining = models.BooleanField(_("draining"), default=False, db_default=False)
    started_at = models.DateTimeField(_("started at"))
    heartbeat_at = models.DateTimeField(_("heartbeat at"), db_index=True)
    stopped_at = models.DateTimeField(_("stopped at"), null=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return str(self.identity)


class QueueState(models.Model):
    """The pause flag of a queue."""

    queue = ExactCharField(_("queue"), max_length=QUEUE, primary_key=True)
    paused = models.BooleanField(_("paused"), default=False, db_default=False)
    paused_at = models.DateTimeField(_("paused at"), null=True)

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        permissions = [("pause_queuestate", "Can pause queues"), ("resume_queuestate", "Can resume queues")]

    def __str__(self) -> str:
        return str(self.queue)


class Throughput(models.Model):
    """Counts of one settlement, only ever inserted and rolled up; sums over its rows are the totals since ever.

    Rows of one histogram cell each: `wait_bucket` and `run_bucket` index `djqueue.counters.BUCKETS`.
    """

    minute = models.DateTimeField()
    queue = ExactCharField(max_length=QUEUE)
    task = ExactCharField(max_length=NAME)
    wait_bucket = models.SmallIntegerField()
    run_bucket = models.SmallIntegerField()
    done = models.BigIntegerField(default=0, db_default=0)
    failed = models.BigIntegerField(default=0, db_default=0)  # attempts
    dead = models.BigIntegerField(default=0, db_default=0)
    cancelled = models.BigIntegerField(default=0, db_default=0)
    wait_sum = models.FloatField(default=0, db_default=0)  # seconds
    run_sum = models.FloatField(default=0, db_default=0)
    rolled = models.SmallIntegerField(default=0, db_default=0)  # 0 as settled, then per minute, hour, day

    class Meta:
        verbose_name = _("throughput")
        verbose_name_plural = _("throughput")
        indexes = [
            models.Index(fields=["queue", "minute"], name="djqueue_throughput_queue"),
            models.Index(fields=["rolled", "minute"], name="djqueue_throughput_roll"),
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.task} {self.minute:%Y-%m-%d %H:%M}"


class Duty(models.Model):
    """When a maintenance duty was last done, and by whom; taken by compare-and-set."""

    name = ExactCharField(max_length=64, primary_key=True)
    done_at = models.DateTimeField()
    done_by = ExactCharField(max_length=NAME, default="", db_default="")

    class Meta:
        verbose_name = _("duty")
        verbose_name_plural = _("duties")

    def __str__(self) -> str:
        return str(self.name)
