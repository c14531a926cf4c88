"""Notifications that follow commits: each is sent after it was asked for, and threads share statements."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

import psycopg
import pytest
from django.db import connections

from djqueue.sql.postgresql import notices, statements
from djqueue.sql.postgresql.notices import Notice, Notices
from djqueue.sql.postgresql.statements import PostgreSQL
from tests.app.tasks import add
from tests.tools import eventually, in_threads

A, B, C = ("pending", "a"), ("pending", "b"), ("pending", "c")


class Sender:
    """Notes what it is asked to send; the first call takes until `go` is set."""

    def __init__(self) -> None:
        self.calls: list[set[Notice]] = []
        self.go = Event()

    def __call__(self, found: Iterable[Notice]) -> None:
        self.calls.append(set(found))
        if len(self.calls) == 1:
            assert self.go.wait(10)


@pytest.mark.databases("postgresql")
def test_the_notifications_of_many_threads_all_arrive(database, monkeypatch):
    monkeypatch.setattr(PostgreSQL, "slow_inserts", 1000)
    monkeypatch.setattr(statements, "SLOW_INSERT", -1.0)

    def enqueue(thread: int) -> None:
        for n in range(25):
            add.using(queue=f"q{thread}-{n}").enqueue(n)

    parameters = connections[database].get_connection_params() | {"cursor_factory": None}
    with psycopg.connect(**parameters, autocommit=True) as ear:
        ear.execute("LISTEN djqueue_pending")
        in_threads(16, enqueue)
        heard = [notice.payload for notice in ear.notifies(timeout=0.5)]
    assert sorted(heard) == sorted(f"q{thread}-{n}" for thread in range(16) for n in range(25))


def test_when_a_call_returns_its_notice_was_sent_after_it_began(monkeypatch):
    """An older statement with the same notice came before the commit: a worker may have found nothing then."""
    monkeypatch.setattr("djqueue.sql.postgresql.notices.PATIENCE", 60)
    notices, clock, begun, calls = Notices(), count(), {}, []

    def send(found: Iterable[Notice]) -> None:
        now = next(clock)
        calls.append(now)
        for notice in list(found):
            begun[notice] = now
        time.sleep(0.0002)

    def add_notices(thread: int) -> int:
        for n in range(300):
            notice = ("pending", str(n % 3))
            called = next(clock)
            notices.send(notice, send)
            assert begun[notice] > called
        return thread

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(add_notices, range(12))) == list(range(12))
    assert len(calls) < 12 * 300 / 2, "threads share statements"


def test_what_comes_while_a_statement_runs_is_sent_by_the_next_one():
    notices, sender = Notices(), Sender()
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(notices.send, A, sender)]
        eventually(lambda: sender.calls)
        calls += [pool.submit(notices.send, notice, sender) for notice in (A, B, C)]
        eventually(lambda: len(notices.open.notices) == 3)
        sender.go.set()
        for call in calls:
            call.result(10)
    assert sender.calls == [{A}, {A, B, C}]


def test_after_an_error_the_next_ones_are_sent():
    notices, sender = Notices(), Sender()
    sender.go.set()
    with pytest.raises(ZeroDivisionError):
        notices.send(A, lambda found: 1 / 0)
    notices.send(B, sender)
    assert sender.calls == [{B}]


def test_a_statement_that_hangs_delays_others_but_does_not_stop_them(monkeypatch):
    monkeypatch.setattr(notices, "PATIENCE", 0.1)
    own, sender = Notices(), Sender()
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(own.send, A, sender)
        eventually(lambda: sender.calls)
        own.send(B, sender)
        assert sender.calls == [{A}, {B}]
        sender.go.set()
        hanging.result(10)


def test_a_forked_process_does_not_wait_for_threads_of_its_parent():
    sender = Sender()
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(notices.of_databases["default"].send, A, sender)
        eventually(lambda: sender.calls)
        child = os.fork()
        if child == 0:
            sent: list[Notice] = []
            notices.of_databases["default"].send(B, sent.extend)
            os._exit(0 if sent == [B] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sender.go.set()
        hanging.result(10)
    notices.of_databases.clear()
