"""In a rush, jobs have no notifications of their own: workers are asked to look often, and find every job in time."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import psycopg
import pytest
from django.db import connections
from hypothesis import given, settings
from hypothesis import strategies as st

import djqueue
from djqueue.core.channels import CHANNEL_OF_RUSH, LONGEST_RUSH, PENDING, RUSHES, parse_rush_request, rush_request
from djqueue.sql.postgresql import statements
from djqueue.sql.postgresql.rushes import FAST, LONGER, MANY, SHORTEST_RUSH, SLOW, Notice, Rush, rush_of
from djqueue.sql.postgresql.statements import PostgreSQL
from djqueue.waiting import wakeup_sources
from djqueue.waiting.rushes import LOOK_EVERY, LOOK_IN_CASE_EVERY, Rushes
from djqueue.waiting.wakeup_sources import Listen
from tests.app.tasks import add
from tests.tools import Clock, eventually, in_threads

MAIL = (PENDING, "mail")
SHORT, LONG = rush_request(*MAIL, SHORTEST_RUSH), rush_request(*MAIL, LONGEST_RUSH)
QUICK, OFTEN, SELDOM = FAST / MANY / 2, SLOW / MANY / 2, SLOW  # pauses between enqueues


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("djqueue.sql.postgresql.rushes.time", clock)
    monkeypatch.setattr("djqueue.waiting.rushes.time", clock)
    return clock


class Producer:
    """A process that enqueues; it sends its notifications with an INSERT or after it, as PostgreSQL does."""

    def __init__(self, clock: Clock, is_slow: bool = False) -> None:
        self.clock = clock
        self.is_slow = is_slow
        self.rush = Rush()
        self.sent: list[Notice] = []
        self.error: Exception | None = None  # of sending

    def enqueue(self, pause: float, takes: float = 0.0, sending_takes: float = 0.0) -> list[Notice]:
        """Enqueue after a pause; return what was sent."""
        self.sent = []

        def send(notice: Notice) -> None:
            self.sent.append(notice)
            self.clock.now += sending_takes
            if self.error:
                raise self.error

        self.clock.now += pause
        notify_later = self.rush.is_on(slow=self.is_slow)
        self.clock.now += takes
        if notify_later:
            self.rush.notify(MAIL, send, slow=self.is_slow)
        else:
            send(MAIL)
        return self.sent


def test_single_enqueues_notify_whatever_they_take(clock):
    for is_slow in (False, True):
        producer = Producer(clock, is_slow)
        assert [producer.enqueue(SELDOM, takes=is_slow * 0.05) for _ in range(50)] == [[MAIL]] * 50


def test_fast_enqueues_at_a_moderate_rate_notify(clock):
    producer = Producer(clock)
    assert [producer.enqueue(2 * FAST / MANY) for _ in range(500)] == [[MAIL]] * 500


@pytest.mark.parametrize(("pause", "is_slow"), [(QUICK, False), (OFTEN, True)])
def test_a_rush_sends_ever_fewer_requests(clock, pause, is_slow):
    producer = Producer(clock, is_slow)
    sent = [notice for _ in range(30 * MANY) for notice in producer.enqueue(pause)]
    assert sent.index(SHORT) in (MANY - 1, MANY)
    asked_for = [parse_rush_request(payload)[0] for channel, payload in sent if channel == RUSHES[PENDING]]
    assert asked_for == [min(SHORTEST_RUSH * LONGER**n, LONGEST_RUSH) for n in range(len(asked_for))]
    count = sum(len(producer.enqueue(pause)) for _ in range(int(10 * LONGEST_RUSH / pause)))
    assert count <= 10 / 0.75 + LONGER


def test_after_a_rush_single_enqueues_notify(clock):
    producer = Producer(clock)
    for _ in range(100):
        producer.enqueue(QUICK)
    assert producer.enqueue(LONGEST_RUSH) == [MAIL]


def test_enqueues_that_are_no_rush_do_not_renew_it(clock):
    producer = Producer(clock)
    for _ in range(int(LONGEST_RUSH / QUICK)):
        producer.enqueue(QUICK)
    while producer.enqueue(QUICK) == []:
        pass
    clock.now += LONGEST_RUSH * 0.75
    sent = [producer.enqueue(5 * QUICK) for _ in range(int(LONGEST_RUSH / QUICK))]
    assert sent[0] == []
    assert set(map(len, sent[len(sent) // 2 :])) == {1}
    assert sent[-1] == [MAIL]


def test_a_new_rush_begins_small(clock):
    producer = Producer(clock)
    for _ in range(int(LONGEST_RUSH / QUICK)):
        producer.enqueue(QUICK)
    clock.now += 2 * LONGEST_RUSH
    sent = [notice for _ in range(3 * MANY) for notice in producer.enqueue(QUICK)]
    assert sent == [MAIL] * MANY + [SHORT]


def test_after_a_request_that_fails_the_next_job_sends_one(clock):
    producer = Producer(clock, is_slow=True)
    for _ in range(MANY - 1):
        producer.enqueue(OFTEN)
    producer.error = ZeroDivisionError()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            producer.enqueue(QUICK)
        assert producer.sent == [SHORT]
    producer.error = None
    assert producer.enqueue(QUICK) == [SHORT]
    assert producer.enqueue(QUICK) == []


def test_others_rely_on_a_rush_while_a_thread_renews_it(clock):
    producer = Producer(clock)
    while producer.enqueue(QUICK) != [SHORT]:
        pass
    while clock.now < producer.rush.renew_at - QUICK:
        assert producer.enqueue(QUICK) == []
    clock.now = producer.rush.renew_at
    of_another_thread: list[list[Notice]] = []
    producer.rush.notify(MAIL, lambda notice: of_another_thread.append(producer.enqueue(QUICK)), slow=False)
    assert of_another_thread == [[]]


def test_a_queue_in_a_rush_silences_no_other():
    assert rush_of("default", MAIL) is rush_of("default", MAIL)
    for other in [("other", MAIL), ("default", (PENDING, "other")), ("default", ("djqueue_blocked", "mail"))]:
        assert rush_of(*other) is not rush_of("default", MAIL)


NEARLY_ALL = SHORTEST_RUSH - LOOK_EVERY / 4
PAUSES = [0.0, QUICK, FAST / MANY, NEARLY_ALL, SHORTEST_RUSH, OFTEN, SLOW, LONGEST_RUSH, 2 * LONGEST_RUSH]
ENQUEUES = st.lists(
    st.tuples(
        st.sampled_from(PAUSES),
        st.sampled_from([0.0, QUICK, OFTEN, LONGEST_RUSH]),
        st.sampled_from([0.0, QUICK, OFTEN, 2 * LONGEST_RUSH]),
        st.booleans(),
        st.integers(1, 3 * MANY),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(enqueues=ENQUEUES, latency=st.sampled_from([0.0, QUICK, OFTEN]), listens_at=st.floats(-3, 3))
def test_every_job_is_looked_for_soon_after_its_commit(enqueues, latency, listens_at):
    """Whatever the pauses, and however long statements take; also by a worker that begins to listen in between."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock = Clock()
        monkeypatch.setattr("djqueue.sql.postgresql.rushes.time", clock)
        monkeypatch.setattr("djqueue.waiting.rushes.time", clock)
        producer = Producer(clock)
        listens_at += clock.now
        committed, heard = [], []
        for pause, takes, sending_takes, producer.is_slow, times in enqueues:
            for _ in range(times):
                before = clock.now + pause
                sent = producer.enqueue(pause, takes, sending_takes)
                committed.append(before + takes)
                heard += [(before + takes + latency, notice) for notice in sent]
        looks = looks_of_a_worker(clock, listens_at, heard)
    for at in committed:
        at = max(at, listens_at)
        assert any(at <= look <= at + latency + LOOK_IN_CASE_EVERY + 1e-9 for look in looks)


def looks_of_a_worker(clock: Clock, listens_at: float, heard: list[tuple[float, Notice]]) -> list[float]:
    """Return when a worker looks that listens from a moment on, and hears these notifications."""
    rushes = Rushes()
    clock.now = listens_at
    looks = [listens_at]
    rushes.may_have_begun((PENDING, None))
    coming = sorted((at, notice) for at, notice in heard if at >= listens_at)
    while True:
        clock.now = min(rushes.next_at(), coming[0][0] if coming else float("inf"))
        if clock.now == float("inf"):
            return looks
        if coming and coming[0][0] == clock.now:
            channel, payload = coming.pop(0)[1]
            if channel in CHANNEL_OF_RUSH:
                lasts, queue = parse_rush_request(payload)
                rushes.began((PENDING, queue), lasts)
            looks.append(clock.now)
        looks += [clock.now] * bool(rushes.due())


@pytest.mark.parametrize("lasts", [0.001, SHORTEST_RUSH, 0.123, LONGEST_RUSH])
def test_the_last_look_is_at_the_end(clock, lasts):
    rushes = Rushes()
    rushes.began(MAIL, lasts)
    end, looks = clock.now + lasts, []
    while (at := rushes.next_at()) < float("inf"):
        clock.now = at
        assert rushes.due() == [MAIL]
        looks.append(at)
    assert looks[-1] >= end
    assert all(later - earlier <= LOOK_EVERY + 1e-9 for earlier, later in pairwise(looks))


@pytest.fixture
def source(database) -> Iterator[Listen]:
    interrupt, write = os.pipe()
    opened = Listen(database, interrupt)
    yield opened
    opened.close()
    os.close(interrupt)
    os.close(write)


def wakeups_of_a_rush(source: Listen) -> list[tuple[float, wakeup_sources.Wakeup]]:
    """Return what the source reports until it expects no more, and when."""
    found: list[tuple[float, wakeup_sources.Wakeup]] = []
    while not found or source.rushes.next_at() < float("inf"):
        wakeups = source.wait(60)
        found += [(time.monotonic(), wakeup) for wakeup in wakeups]
    return found


@pytest.mark.databases("postgresql")
def test_a_listener_looks_until_the_end_of_a_rush(database, source):
    source.listen_to([PENDING])
    wakeups_of_a_rush(source)  # that may have begun before
    sent = time.monotonic()
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", LONG)
        cursor.execute("SELECT pg_notify(%s, %s)", SHORT)
    found = wakeups_of_a_rush(source)
    assert {wakeup for _, wakeup in found} == {MAIL}
    first, last = found[0][0], found[-1][0]
    assert 3 < len(found) <= 3 + (last - first) / LOOK_EVERY
    assert last >= sent + LONGEST_RUSH, "the request of another process for less does not end it"


@pytest.mark.databases("postgresql")
def test_who_begins_to_listen_looks_until_a_rush_must_be_over(source):
    before = time.monotonic()
    source.listen_to([PENDING])
    found = wakeups_of_a_rush(source)
    assert {wakeup for _, wakeup in found} == {(PENDING, None)}
    assert 3 < len(found) <= 2 + LONGEST_RUSH / LOOK_IN_CASE_EVERY
    assert found[-1][0] >= before + LONGEST_RUSH


def heard_of(database: str, work) -> list[str]:
    parameters = connections[database].get_connection_params() | {"cursor_factory": None}
    with psycopg.connect(**parameters, autocommit=True) as ear:
        for channel in (PENDING, RUSHES[PENDING]):
            ear.execute(f"LISTEN {channel}")
        work()
        return [f"{notice.channel}:{notice.payload}" for notice in ear.notifies(timeout=0.5)]


@pytest.mark.databases("postgresql")
def test_many_enqueues_of_many_threads_send_few_notifications(database, monkeypatch):
    monkeypatch.setattr(statements, "SLOW_INSERT", -1.0)
    mail = add.using(queue="mail")
    heard = heard_of(database, lambda: in_threads(8, lambda _: [mail.enqueue(n) for n in range(100)]))
    requests = [notice for notice in heard if notice.startswith("djqueue_pending_rush:")]
    assert 1 <= len(requests) < 100
    assert len(heard) < 200


@pytest.mark.databases("postgresql")
def test_a_rush_of_enqueues_leaves_out_no_queue(database, monkeypatch):
    monkeypatch.setattr(PostgreSQL, "slow_share", 1.0)
    monkeypatch.setattr(statements, "SLOW_INSERT", -1.0)
    queues = [f"q{n}" for n in range(20)]

    def work() -> None:
        in_threads(4, lambda thread: [add.using(queue=queue).enqueue(n) for queue in queues for n in range(5)])

    heard = heard_of(database, work)
    assert {notice.rpartition(":")[2].rpartition(" ")[2] for notice in heard} == set(queues)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
def test_no_job_is_left_lying_after_a_rush(database, monkeypatch, slow):
    """Threads enqueue now fast, now slowly, and stop at any moment; workers lose the connections on which they listen.

    Nothing but a look in time finds a job: waits are longer than the test is patient.
    """
    monkeypatch.setattr(wakeup_sources, "SAFETY_POLL", 10_000)
    monkeypatch.setattr(statements, "SLOW_INSERT", -1.0 if slow else 1.0)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    done: list[int] = []
    enqueued = stopping = 0

    def work(queue: str) -> None:
        while not stopping:
            for job in djqueue.Queue(queue).claim_wait(60, limit=50):
                job.ack()
                done.append(1)

    def produce(number: int) -> int:
        choice = random.Random(seed + number)
        count = choice.randrange(1, 60)
        task = add.using(queue=choice.choice(["a", "b"]))
        for n in range(count):
            task.enqueue(n)
            time.sleep(choice.choice([0, 0, 0, 0, 0.001, 0.02]))
        return count

    with ThreadPoolExecutor(4) as workers:
        running = [workers.submit(closing_connections, work, queue) for queue in "aabb"]
        try:
            time.sleep(LONGEST_RUSH + 0.5)  # the workers look by themselves until they rely on requests
            for turn in range(12):
                enqueued += sum(in_threads(3, lambda number, turn=turn: produce(10 * turn + number)))
                if turn == 9:
                    cut_listeners(database)
                eventually(lambda: len(done) == enqueued, 15)
        finally:
            stopping = True
            while not all(worker.done() for worker in running):
                for queue in "ab":
                    add.using(queue=queue).enqueue(0)


def closing_connections(work: Callable[[str], object], queue: str) -> None:
    try:
        work(queue)
    finally:
        connections.close_all()


def cut_listeners(database: str) -> None:
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
