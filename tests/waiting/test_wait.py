from __future__ import annotations

import os
import resource
import statistics
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import OperationalError, connections, transaction

import djqueue
from djqueue.conf import config
from djqueue.core.channels import ENDED, PENDING
from djqueue.lifecycle import claim as claiming
from djqueue.waiting import listener as listening
from djqueue.waiting import wakeup_sources
from djqueue.waiting.wakeup_sources import Listen
from tests.app.tasks import add
from tests.factories import DeadJobFactory, DoneJobFactory, JobFactory, ago
from tests.tools import claim_one, eventually, in_thread, notifications

SOON = 60  # seconds within which everything here must happen; other tests measure how fast


@pytest.fixture
def beside():
    """Run a function on another thread and connection while the test continues."""
    with ThreadPoolExecutor(8) as pool:

        def start(work, *args):
            def run():
                try:
                    return work(*args)
                finally:
                    connections.close_all()

            return pool.submit(run)

        yield start


@pytest.fixture
def notified_only(monkeypatch):
    """On PostgreSQL, nothing wakes a waiter within the test but a notification."""
    monkeypatch.setattr(wakeup_sources, "SAFETY_POLL", 100 * SOON)


def until_waiting(count: int = 1) -> None:
    """Wait until so many callers are registered and their jobs were queried."""
    found = listening.listener()
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        with found.lock:
            waiters = [waiter for group in found.waiters.values() for waiter in group]
            watchers = [watcher for group in found.watchers.values() for watcher in group]
        if len(waiters) + len(watchers) >= count and all(waiter.seen for waiter in waiters):
            return
        time.sleep(0.002)
    raise AssertionError("no caller is waiting")


def until_gone() -> None:
    """Wait until the listener of an earlier test has exited."""
    thread = listening.listener().thread
    if thread is not None:
        thread.join(SOON)
    assert listening.listener().thread is None


@pytest.mark.parametrize(
    ("make", "status"),
    [(DoneJobFactory, "done"), (DeadJobFactory, "dead"), (lambda: DoneJobFactory(cancelled=True), "cancelled")],
)
@pytest.mark.parametrize("timeout", [0, None])
def test_a_job_that_ended_answers_at_once(database, make, status, timeout):
    row = make()
    outcome = djqueue.wait(row.pk, timeout)
    assert (outcome.completed, outcome.timed_out, outcome.not_found) == (True, False, False)
    assert (outcome.record.id, outcome.record.status) == (row.pk, status)


def test_an_unknown_job_is_not_found(database):
    for job_id in (uuid4(), "malformed"):
        outcome = djqueue.wait(job_id, 5)
        assert (outcome.completed, outcome.timed_out, outcome.not_found) == (False, False, True)
        assert outcome.record is None


def test_wait_ends_at_its_timeout(database):
    handle = add.enqueue(1)
    for timeout in (0, 0.05):
        outcome = handle.wait(timeout)
        assert (outcome.completed, outcome.timed_out, outcome.not_found) == (False, True, False)
        assert outcome.record.status == "pending"


ENDS = {
    "done": lambda: claim_one().ack(5),
    "dead": lambda: claim_one().dead_letter("x"),
    "cancelled": lambda: [djqueue.cancel(job.pk) for job in _live()],
    "reaped to death": lambda: (claim_one(lease=0), djqueue.maintenance.reap()),
}


def _live():
    from djqueue.models import Job
    from tests.tools import rows

    return list(rows(Job).all())


@pytest.mark.parametrize("end", ENDS)
def test_waiters_are_woken_by_every_end(database, beside, end):
    handle = add.using(max_attempts=1).enqueue(1)
    waits = [beside(handle.wait, SOON) for _ in range(3)]
    until_waiting(3)
    ENDS[end]()
    for wait in waits:
        outcome = wait.result()
        assert outcome.completed
        assert outcome.record.status == {"reaped to death": "dead"}.get(end, end)


def test_a_retry_does_not_wake_waiters(database, beside):
    handle = add.enqueue(1)
    wait = beside(handle.wait, SOON)
    until_waiting()
    claim_one().nack("boom", delay=0)
    claim_one().snooze(0)
    assert not wait.done()
    claim_one().ack("second")
    assert wait.result().record.result == "second"


def test_a_retry_that_is_scheduled_does_not_end_the_wait(database, configure, beside):
    configure(POLL_INTERVAL=0.05)
    handle, other = add.enqueue(1), add.enqueue(2)
    wait, wait_for_other = beside(handle.wait, SOON), beside(other.wait, SOON)
    until_waiting(2)
    first, second = djqueue.Queue("default").claim(2)
    first.nack("boom", delay=60)
    second.ack()
    assert wait_for_other.result().completed  # by a look at both, which found the first one scheduled
    assert not wait.done()
    assert (handle.wait(0).timed_out, handle.status()) == (True, "scheduled")
    djqueue.reschedule(handle.id, run_at=ago(1))
    claim_one().ack("second")
    assert (wait.result().completed, wait.result().record.result) == (True, "second")


def test_a_job_that_is_not_kept_completes_without_a_record(configure, beside):
    configure(KEEP_DONE=0)
    handle = add.enqueue(1)
    wait = beside(handle.wait, SOON)
    until_waiting()
    claim_one().ack()
    outcome = wait.result()
    assert (outcome.completed, outcome.record) == (True, None)
    assert handle.wait(0).not_found


def test_waiting_inside_a_transaction_is_refused_unless_the_job_ended(database):
    done = DoneJobFactory()
    with transaction.atomic(using=database):
        handle = add.enqueue(1)
        with pytest.raises(djqueue.WaitInTransaction, match="after the commit"):
            handle.wait(0)
        with pytest.raises(djqueue.WaitInTransaction):
            djqueue.wait(uuid4(), 1)
        assert djqueue.wait(done.pk, 0).completed
        assert len(djqueue.Queue("default").claim_wait(0)) == 1
        assert djqueue.Queue("default").claim_wait(0) == []
        with pytest.raises(djqueue.WaitInTransaction):
            djqueue.Queue("default").claim_wait(5)
        with pytest.raises(djqueue.WaitInTransaction):
            djqueue.wait_for_jobs(5)


def test_a_bad_timeout_is_an_error(database):
    with pytest.raises(djqueue.InvalidOption, match="timeout"):
        djqueue.wait(uuid4(), -1)


@pytest.mark.databases("postgresql", "postgresql_pool", "sqlite", "mysql")
def test_two_hundred_waiters_share_one_connection(database, configure, notified_only):
    configure(POLL_INTERVAL=0.1)
    until_gone()
    before = sessions(database)
    for _ in range(3):
        handle = add.enqueue(1)
        woken: list[bool] = []

        def wait(handle=handle, woken=woken) -> None:
            woken.append(handle.wait(SOON).completed)

        threads = [threading.Thread(target=wait) for _ in range(200)]
        for thread in threads:
            thread.start()
        until_waiting(200)
        assert len([thread for thread in threading.enumerate() if thread.name == f"djqueue-listener-{database}"]) == 1
        if database.startswith("postgresql"):
            assert len(sessions(database) - before) == 1
        claim_one().ack()
        for thread in threads:
            thread.join(SOON)
        assert woken == [True] * 200


def sessions(database: str) -> set[int]:
    """Return the server processes of this database, if it has any; those of earlier tests may exit at any time."""
    if not database.startswith("postgresql"):
        return set()
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return {row[0] for row in cursor.fetchall()}


@pytest.mark.databases("mysql")
def test_all_waiters_share_one_poll_query_without_notify(database, configure, beside, monkeypatch):
    configure(POLL_INTERVAL=0.05)
    looks: list[int] = []
    look = listening.Listener._query

    def counting(self, source, waiters) -> None:
        looks.append(len(waiters))
        look(self, source, waiters)

    monkeypatch.setattr(listening.Listener, "_query", counting)
    handles = [add.enqueue(n) for n in range(6)]
    waits = [beside(handle.wait, SOON) for handle in handles]
    until_waiting(6)
    while 6 not in looks:
        time.sleep(0.005)
    for job in djqueue.Queue("default").claim(6):
        job.ack()
    assert all(wait.result().completed for wait in waits)


def test_the_listener_exits_when_there_are_no_waiters(database):
    add.enqueue(1).wait(0)
    until_gone()
    add.enqueue(1).wait(0)
    assert listening.listener().thread is not None


WAKES = {
    "enqueue": lambda job, dead: add.enqueue(1),
    "enqueue in a batch": lambda job, dead: add.enqueue_many([djqueue.call(1)]),
    "commit": lambda job, dead: in_transaction(),
    "retry at once": lambda job, dead: job.nack("boom", delay=0),
    "release": lambda job, dead: job.release(),
    "snooze of zero": lambda job, dead: job.snooze(0),
    "reap": lambda job, dead: (job.renew(0), djqueue.maintenance.reap()),
    "promote": lambda job, dead: (JobFactory(scheduled=True, run_at=ago(1)), djqueue.maintenance.promote()),
    "requeue": lambda job, dead: djqueue.requeue(dead),
    "reschedule": lambda job, dead: djqueue.reschedule(add.using(delay=99).enqueue(1).id, run_at=ago(1)),
    "resume": lambda job, dead: (
        djqueue.Queue("default").pause(),
        add.enqueue(1),
        djqueue.Queue("default").resume(),
    ),
}


def in_transaction() -> None:
    with transaction.atomic(using=config().database):
        add.enqueue(1)


class CountingQueue(djqueue.Queue):
    """Count the claims, so that a test knows when a claimer has begun to wait."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.claims = 0

    def claim(self, *args, **kwargs):
        found = super().claim(*args, **kwargs)
        self.claims += 1
        return found


@pytest.fixture
def fresh_listener(database, configure, monkeypatch, notified_only):
    """A listener that has just been opened."""
    configure(POLL_INTERVAL=0.05)
    monkeypatch.setattr(listening, "LINGER", 0.01)
    until_gone()
    opened = threading.Event()
    with listening.listener().watching("default", opened.set):
        assert opened.wait(SOON)
        yield


@pytest.mark.parametrize("wake", WAKES)
def test_every_transition_to_pending_wakes_a_claimer(fresh_listener, beside, wake):
    """On PostgreSQL by NOTIFY alone."""
    add.enqueue(1)
    job = claim_one()
    dead = DeadJobFactory().pk
    queue = CountingQueue("default")
    claim = beside(queue.claim_wait, SOON)
    eventually(lambda: queue.claims >= 2)  # once before it was registered with the listener, once after
    WAKES[wake](job, dead)
    assert len(claim.result()) == 1


@pytest.mark.databases("postgresql")
def test_a_source_hears_only_of_the_channels_that_are_needed(database):
    read, write = os.pipe()
    source = Listen(database, read)
    try:
        assert source.listen_to([PENDING]) == [(PENDING, None)]
        assert source.listen_to([PENDING]) == []  # nothing was missed
        add.enqueue(1)
        eventually(lambda: (PENDING, "default") in source.wait(0.1))
        claim_one().ack()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            assert (ENDED, None) not in source.wait(0.1)
        assert source.listen_to([PENDING, ENDED]) == [(ENDED, None)]
        add.enqueue(1)
        claim_one().ack()
        eventually(lambda: (ENDED, None) in source.wait(0.1))
    finally:
        source.close()
        os.close(read)
        os.close(write)


@pytest.mark.databases("postgresql")
def test_a_job_that_ends_before_the_process_listens_to_it_is_not_missed(database, fresh_listener, monkeypatch):
    """The first wait of a process makes it listen to ended jobs: this one ends after it was read, and before that."""
    handle = add.enqueue(1)
    job = claim_one()
    listen_to = Listen.listen_to

    def end_and_listen(self, channels):
        if ENDED in channels and ENDED not in self.channels:
            until_waiting(2)  # the watcher of the fixture, and the waiter, whose job was read
            in_thread(job.ack)
        return listen_to(self, channels)

    monkeypatch.setattr(Listen, "listen_to", end_and_listen)
    assert handle.wait(SOON).completed


def test_wait_for_jobs_returns_at_once_with_a_backlog(database):
    assert djqueue.wait_for_jobs(0) is False
    JobFactory(scheduled=True)
    JobFactory(queue="paused")
    djqueue.Queue("paused").pause()
    assert djqueue.wait_for_jobs(0.05) is False
    add.using(queue="other").enqueue(1)
    assert djqueue.wait_for_jobs(0) is True


def test_wait_for_jobs_is_woken_by_any_queue(database, configure, beside):
    configure(POLL_INTERVAL=0.05)
    wait = beside(djqueue.wait_for_jobs, SOON)
    until_waiting()
    add.using(queue="whatever").enqueue(1)
    assert wait.result() is True


def test_claim_wait_returns_nothing_at_its_timeout(database):
    start = time.monotonic()
    assert djqueue.Queue("default").claim_wait(0.1) == []
    assert 0.1 <= time.monotonic() - start < 30


def test_claim_wait_takes_limit_and_lease(database, beside):
    for n in range(3):
        add.enqueue(n)
    jobs = djqueue.Queue("default").claim_wait(1, limit=2, lease=99)
    assert [job.lease for job in jobs] == [99, 99]


@pytest.mark.databases("postgresql", "sqlite")
def test_an_idle_claimer_starts_at_once(database, beside):
    """Milliseconds on PostgreSQL, about 20 on SQLite; the bound leaves room for a loaded machine."""
    delays = []
    for n in range(20):
        claim = beside(djqueue.Queue("default").claim_wait, SOON)
        until_waiting()
        add.enqueue(n)
        committed = time.monotonic()
        claim.result()
        delays.append(time.monotonic() - committed)
    assert statistics.median(delays) < 0.05


@pytest.mark.databases("postgresql")
def test_claim_wait_polls_without_notify(database, configure, beside):
    until_gone()
    configure(NOTIFY=False, POLL_INTERVAL=0.05)
    handle = add.enqueue(1)
    with connections["postgresql_repeatable"].cursor() as cursor:
        cursor.execute("LISTEN djqueue_pending")
        wait = beside(handle.wait, SOON)
        until_waiting()
        claim_one().ack()
        assert wait.result().completed
        add.enqueue(1)
        assert notifications(connections["postgresql_repeatable"]) == []
    connections["postgresql_repeatable"].close()


@pytest.mark.databases("postgresql")
def test_without_notifications_the_listener_polls_and_logs_a_warning(database, configure, beside, monkeypatch, caplog):
    """As behind a pooler in transaction mode: LISTEN succeeds, and nothing is ever heard; it is tried again."""
    from djqueue.waiting import wakeup_sources

    until_gone()
    monkeypatch.setattr(wakeup_sources, "ROUND_TRIP", 0.1)
    monkeypatch.setattr(wakeup_sources, "LISTEN_AGAIN_AFTER", 0.5)
    monkeypatch.setattr(wakeup_sources, "_backoffs", defaultdict(wakeup_sources.ListenBackoff))
    configure(POLL_INTERVAL=0.05)
    with monkeypatch.context() as deaf:
        deaf.setattr(wakeup_sources.Listen, "_collect", lambda self: None)
        assert wakeup_sources.source_in_use(database) == "poll"
        claim = beside(djqueue.Queue("default").claim_wait, SOON)
        until_waiting()
        add.enqueue(1)
        assert len(claim.result()) == 1
    assert "DJQUEUE['LISTEN_DATABASE']" in caplog.text
    claim = beside(djqueue.Queue("default").claim_wait, SOON)
    eventually(lambda: listening.listener().kind == "notify")
    add.enqueue(2)
    assert len(claim.result()) == 1


@pytest.mark.databases("postgresql")
def test_the_listener_reconnects_after_its_connection_was_killed(database, beside):
    until_gone()
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        started = cursor.fetchone()[0]
    handle = add.enqueue(1)
    wait = beside(handle.wait, 30)
    claim = beside(djqueue.Queue("other").claim_wait, 30)
    until_waiting(2)
    with connections[database].cursor() as cursor:
        # Not the sessions that earlier tests have left in other aliases of this database.
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_start > %s AND pid <> pg_backend_pid() "
            "AND (query LIKE 'LISTEN%%' OR query LIKE '%%UNION ALL%%')",
            [started],
        )
        assert cursor.fetchone()[0] >= 1
    claim_one().ack()
    add.using(queue="other").enqueue(1)
    assert wait.result().completed
    assert len(claim.result()) == 1


@pytest.mark.databases("postgresql", "sqlite")
def test_a_forked_child_waits_by_itself(database, beside):
    """The child has no thread and no connection of its parent's; both wait, and both are woken."""
    handle = add.enqueue(1)
    wait = beside(handle.wait, SOON)
    until_waiting()
    connections.close_all()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if djqueue.wait(handle.id, SOON).completed else 2
        finally:
            os._exit(status)
    time.sleep(0.2)  # the child's waiting cannot be seen from here; if it comes later, it finds the job ended
    claim_one().ack()
    assert wait.result().completed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_unreachable_database_raises_in_the_waiter(database, beside, monkeypatch):
    def refuse(alias: str, interrupt: int) -> None:
        raise OperationalError("no database today")

    until_gone()
    monkeypatch.setattr(listening, "open_source", refuse)
    with pytest.raises(OperationalError, match="no database today"):
        in_thread(add.enqueue(1).wait, SOON)


@pytest.mark.databases("sqlite")
def test_an_in_memory_database_is_polled_by_the_caller(database, settings):
    settings.DJQUEUE = {"DATABASE": "default"}
    handle = add.enqueue(1)
    assert handle.wait(0.05).timed_out
    [job] = claiming.claim({"default": 1})
    assert djqueue.Queue("default").claim_wait(0.05) == []
    job.ack()
    assert handle.wait(SOON).completed
    assert djqueue.maintenance.sweep_done(0) == 1


@pytest.mark.databases("postgresql", "sqlite")
def test_waiting_works_with_many_open_files(database, tmp_path):
    """select() ends at the 1,024th file; a web server does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    until_gone()
    files = [open(os.devnull) for _ in range(1100)]  # noqa: SIM115
    try:
        listening._forget()  # its pipe is created again, with descriptors beyond the limit
        handle = add.enqueue(1)
        assert handle.wait(0.05).timed_out
        assert djqueue.Queue("other").claim_wait(0.05) == []
    finally:
        for file in files:
            file.close()


def test_a_thread_that_could_not_be_started_is_tried_again(database, monkeypatch):
    until_gone()
    row = DoneJobFactory()
    start = threading.Thread.start
    refusals = ["once"]

    def refuse(self) -> None:
        if self.name.startswith("djqueue-listener") and refusals:
            refusals.pop()
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        djqueue.wait(row.pk, 1)
    assert djqueue.wait(row.pk, SOON).completed
    assert not listening.listener().waiters


@pytest.mark.databases("postgresql")
def test_a_listener_that_cannot_start_leaves_no_connection_behind(database, monkeypatch):
    from djqueue.waiting import wakeup_sources

    until_gone()
    connect = wakeup_sources.private_connection
    made = []

    def refuse_the_second(alias: str):
        if len(made) % 2:
            made.append(None)
            raise OperationalError("too many clients")
        made.append(connect(alias))
        return made[-1]

    monkeypatch.setattr(wakeup_sources, "private_connection", refuse_the_second)
    with pytest.raises(OperationalError, match="too many clients"):
        add.enqueue(1).wait(SOON)
    until_gone()
    assert all(connection is None or connection.connection is None for connection in made)


@pytest.mark.databases("sqlite")
def test_an_async_wait_on_an_in_memory_database_lets_others_work(database, settings):
    import asyncio

    from asgiref.sync import async_to_sync

    settings.DJQUEUE = {"DATABASE": "default"}

    async def scene() -> None:
        handle = await add.aenqueue(1)
        waiting = asyncio.create_task(handle.await_(SOON))
        await asyncio.sleep(0.05)
        [job] = await djqueue.Queue("default").aclaim()
        await job.aack()
        assert (await waiting).completed

    async_to_sync(scene)()
    assert djqueue.maintenance.sweep_done(0) == 1
