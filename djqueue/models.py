"""The models. Only `djqueue.lifecycle` writes job state; other code reads the models, or calls `djqueue.lifecycle`."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import (
    ArgumentsField,
    CanonicalJSONField,
    ExactCharField,
    ExactTextField,
    JSONLinesField,
    JSONTextField,
    PartialStatusIndex,
    PermitIndex,
    StatusIndex,
    UniqueWhereSet,
    WordsField,
)
from .states import LIVE, DedupUntil, Status

NAME = 255  # task names, KV keys, dedup keys, worker identities
QUEUE = 128


class JobFields(models.Model):
    """The columns that a job has in every table; the statement that settles a job moves its whole row."""

    id = models.UUIDField(primary_key=True)
    task = ExactCharField(_("task"), max_length=NAME)
    queue = ExactCharField(_("queue"), max_length=QUEUE)
    priority = models.BigIntegerField(_("priority"))  # lower runs first
    args = ArgumentsField(_("args"), default=list)
    kwargs = ArgumentsField(_("kwargs"), default=dict)
    headers = JSONTextField(_("headers"), default=dict)
    attempts = models.IntegerField(_("attempts"), default=0, db_default=0)  # incremented by the claim
    max_attempts = models.IntegerField(_("max attempts"))
    run_at = models.DateTimeField(_("run at"))  # not before this time; set again by a retry
    enqueued_at = models.DateTimeField(_("enqueued at"))  # order within a priority; unchanged by a retry
    started_at = models.DateTimeField(_("started at"), null=True)  # first attempt
    last_attempted_at = models.DateTimeField(_("last attempted at"), null=True)
    claimed_at = models.DateTimeField(_("claimed at"), null=True)
    failed_at = models.DateTimeField(_("failed at"), null=True)  # last failure; of a dead job, when it became dead
    last_error = ExactTextField(_("last error"), default="", db_default="")  # the message only
    errors = JSONLinesField(_("errors"), default=list, db_default="")  # one entry per failed attempt
    worker_ids = WordsField(_("workers"), default=list, db_default="")  # one per attempt
    progress = JSONTextField(_("progress"), null=True)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False, db_default=False)
    dedup_key = ExactCharField(_("dedup key"), max_length=NAME, null=True)  # NULL once released
    retry = JSONTextField(_("retry policy"), null=True)  # set only by the call, as are timeout and lease
    timeout = models.FloatField(_("timeout"), null=True)
    lease = models.FloatField(_("lease"), null=True)
    crashes = models.IntegerField(
        _("crashes"), default=0, db_default=0
    )  # attempts during which the worker process died
    schedule = ExactCharField(_("schedule"), max_length=NAME, null=True)  # name of the schedule that created it
    slot = models.DateTimeField(_("slot"), null=True)  # the time for which the schedule created it
    limit_key = ExactCharField(_("limit key"), max_length=NAME, null=True)  # whose permit it needs to be pending

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.task} {self.id}"


class Job(JobFields):
    """A live job: scheduled, blocked, pending or claimed."""

    completed_at = result = None  # so that all three job models have the same attributes

    status = ExactCharField(_("status"), max_length=9, choices=[(s.value, s.label) for s in LIVE])
    token = models.UUIDField(null=True)  # identifies the claim; required to settle the job
    worker = ExactCharField(_("worker"), max_length=NAME, default="", db_default="")  # the process that holds it
    lease_expires_at = models.DateTimeField(_("lease expires at"), null=True)  # not indexed, so that renewals are cheap
    started = models.BooleanField(default=False, db_default=False)  # the current attempt has started
    returns = models.IntegerField(default=0, db_default=0)  # attempts given back by the reaper, at most three times
    unknown_since = models.DateTimeField(null=True)  # when a worker without this task first claimed it
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
            # For claims: exactly their WHERE and ORDER BY.
            StatusIndex(
                status=Status.PENDING.value,
                fields=["queue", "priority", "enqueued_at", "id"],
                name="djqueue_job_claim",
            ),
            # For the promoter: reads due jobs only.
            StatusIndex(status=Status.SCHEDULED.value, fields=["run_at", "id"], name="djqueue_job_due"),
            # For the admin and stats(): the scheduled jobs of one queue among a million others.
            PartialStatusIndex(status=Status.SCHEDULED.value, fields=["queue", "id"], name="djqueue_job_scheduled"),
            # For the reaper: claimed rows are few.
            StatusIndex(status=Status.CLAIMED.value, fields=["id"], name="djqueue_job_claimed"),
            # For admission: who is next for a permit of the key.
            StatusIndex(
                status=Status.BLOCKED.value,
                fields=["limit_key", "priority", "enqueued_at", "id"],
                name="djqueue_job_blocked",
            ),
            # For admission: how many jobs hold a permit of the key. MariaDB uses the one above.
            PermitIndex(fields=["limit_key"], name="djqueue_job_permit"),
        ]
        constraints = [
            UniqueWhereSet(fields=["queue", "dedup_key"], name="djqueue_job_dedup"),
            UniqueWhereSet(fields=["schedule", "slot"], name="djqueue_job_slot"),
        ]


class DoneJob(JobFields):
    """A done or cancelled job, kept for KEEP_DONE."""

    lease_expires_at = None

    status = ExactCharField(
        _("status"),
        max_length=9,
        choices=[(s.value, s.label) for s in (Status.DONE, Status.CANCELLED)],
    )
    completed_at = models.DateTimeField(_("completed at"))
    result = ArgumentsField(_("result"), null=True)

    class Meta:
        verbose_name = _("done job")
        verbose_name_plural = _("done jobs")
        indexes = [models.Index(fields=["queue", "completed_at"], name="djqueue_done_sweep")]


class DeadJob(JobFields):
    """A dead job, kept for KEEP_DEAD; `failed_at` is when it became dead."""

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
            # For the admin: the dead jobs of one task, latest first. Few jobs become dead, so it is cheap.
            models.Index(fields=["task", "failed_at"], name="djqueue_dead_task"),
        ]

    @property
    def status(self) -> Status:
        return Status.DEAD


class KV(models.Model):
    """An entry of the key-value store, which is for the project; djqueue itself does not use it."""

    key = ExactCharField(_("key"), max_length=NAME, primary_key=True)
    value = CanonicalJSONField(_("value"), null=True)
    updated_at = models.DateTimeField(_("updated at"))
    expires_at = models.DateTimeField(_("expires at"), null=True, db_index=True)

    class Meta:
        verbose_name = _("KV entry")
        verbose_name_plural = _("KV entries")

    def __str__(self) -> str:
        return str(self.key)


class LimitKey(models.Model):
    """What is known of a limit key beside its jobs. An admission locks the row; permits are counted, never stored."""

    key = ExactCharField(_("key"), max_length=NAME, primary_key=True, db_column="limit_key")
    # Set by djqueue.limits.set(), in place of the numbers of the task.
    concurrency = models.IntegerField(_("concurrency"), null=True)
    rate = models.FloatField(_("rate per second"), null=True)
    burst = models.IntegerField(_("burst"), null=True)
    spent_until = models.DateTimeField(_("spent until"), null=True)  # the admitted jobs use up the rate until then
    held_until = models.DateTimeField(_("held until"), null=True)
    admitted_at = models.DateTimeField(_("admitted at"))  # written by every admission, also by one that admits nothing

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        permissions = [("hold_limitkey", "Can hold and release limits")]

    def __str__(self) -> str:
        return str(self.key)


class Schedule(models.Model):
    """A cron rule or an interval that enqueues jobs."""

    name = ExactCharField(_("name"), max_length=NAME, unique=True)
    task = ExactCharField(_("task"), max_length=NAME)
    cron = models.CharField(_("cron rule"), max_length=255, default="", db_default="", blank=True)
    every = models.FloatField(_("every (seconds)"), null=True, blank=True)
    timezone = models.CharField(_("time zone"), max_length=64, default="UTC", db_default="UTC")
    args = ArgumentsField(_("args"), default=list)
    kwargs = ArgumentsField(_("kwargs"), default=dict)
    queue = ExactCharField(
        _("queue"), max_length=QUEUE, default="", db_default="", blank=True
    )  # empty for the task's queue
    priority = models.BigIntegerField(_("priority"), null=True, blank=True)
    misfire = models.CharField(_("misfire"), max_length=8, default="once", db_default="once")
    misfire_cap = models.IntegerField(_("misfire cap"), default=100, db_default=100)
    overlap = models.CharField(_("overlap"), max_length=8, default="allow", db_default="allow")
    jitter = models.FloatField(_("jitter (seconds)"), default=0, db_default=0)
    starts_at = models.DateTimeField(_("starts at"), null=True, blank=True)
    ends_at = models.DateTimeField(_("ends at"), null=True, blank=True)
    enabled = models.BooleanField(
        _("enabled"), default=True, db_default=True
    )  # False if disabled by an operator or by a problem
    from_code = models.BooleanField(_("from code"), default=False, db_default=False)
    removed_from_code = models.BooleanField(_("removed from code"), default=False, db_default=False)
    problem = models.TextField(_("problem"), default="", db_default="", blank=True)  # why it was disabled automatically
    disabled_at = models.DateTimeField(_("disabled at"), null=True, blank=True)
    disabled_by = models.CharField(_("disabled by"), max_length=NAME, default="", db_default="", blank=True)
    next_at = models.DateTimeField(_("next run at"), null=True, blank=True)
    last_at = models.DateTimeField(_("last run at"), null=True, blank=True)
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
    """A worker process; its identity is never reused."""

    identity = ExactCharField(_("identity"), max_length=NAME, primary_key=True)
    name = models.CharField(_("name"), max_length=NAME, default="", db_default="")
    supervisor = ExactCharField(_("supervisor"), max_length=NAME, default="", db_default="")
    host = models.CharField(_("host"), max_length=255)
    pid = models.IntegerField(_("process id"))
    queues = JSONTextField(_("queues"), default=list)
    threads = models.IntegerField(_("threads"), default=1, db_default=1)
    running = models.IntegerField(_("running"), default=0, db_default=0)
    finished = models.BigIntegerField(_("finished"), default=0, db_default=0)
    memory = models.BigIntegerField(_("memory"), default=0, db_default=0)  # resident bytes
    version = models.CharField(_("version"), max_length=32, default="", db_default="")
    quiet = models.BooleanField(_("quiet"), default=False, db_default=False)  # claims no jobs, and does not exit
    draining = models.BooleanField(_("draining"), default=False, db_default=False)
    loops = JSONTextField(_("loops"), default=dict)  # seconds since the last good turn of each loop, at the heartbeat
    samples = JSONTextField(_("memory"), default=list)  # [seconds since the start, bytes], a bounded number
    # What an operator wants it to do (see djqueue.states.WorkerRequest), and since when; its supervisor obeys.
    request = models.CharField(_("request"), max_length=8, default="", db_default="")
    requested_at = models.DateTimeField(_("requested at"), null=True)
    started_at = models.DateTimeField(_("started at"))
    heartbeat_at = models.DateTimeField(_("heartbeat at"), db_index=True)
    stopped_at = models.DateTimeField(_("stopped at"), null=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        permissions = [("control_worker", "Can quiet and drain workers")]

    def __str__(self) -> str:
        return str(self.identity)


class QueueState(models.Model):
    """Whether a queue is paused."""

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
    """Counts of settled jobs. Rows are only inserted and rolled up, so the sums over all rows are the all-time totals.

    Each row is one histogram cell: `wait_bucket` and `run_bucket` are positions in `djqueue.sql.throughput.BUCKETS`.
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
    rolled = models.SmallIntegerField(
        default=0, db_default=0
    )  # 0 if not rolled up, then per minute, hour, day, all time

    class Meta:
        verbose_name = _("throughput")
        verbose_name_plural = _("throughput")
        indexes = [
            models.Index(fields=["queue", "minute"], name="djqueue_throughput_queue"),
            models.Index(fields=["rolled", "minute"], name="djqueue_throughput_roll"),
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.task} {self.minute:%Y-%m-%d %H:%M}"
