"""The command in a process of its own, with real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

import djqueue
from djqueue import call
from tests.tools import live
from tests.worker import tasks
from tests.worker.test_worker import PLAIN, eventually


@pytest.fixture
def runworker(database):
    """Start the command; whatever is left at the end is killed."""
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        name = str(connections[database].settings_dict["NAME"])
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.main", database, name, *arguments],
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.databases(*PLAIN)
def test_a_burst_runs_what_is_due_and_ends(database, runworker):
    handles = tasks.double.enqueue_many([call(n) for n in range(50)])
    process = runworker("--burst", "--threads", "2")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert {handle.status() for handle in handles} == {"done"}
    assert f"queues=all database={database} processes=1 threads=2" in output
    assert output.count("done job=") == 50
    assert "task=tests.worker.tasks.double queue=default attempt=1/3" in output


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(database, runworker, number):
    running = tasks.sleep.enqueue(2)
    waiting = tasks.sleep.enqueue_many([call(60) for _ in range(10)])
    process = runworker("--threads", "1")
    eventually(lambda: live(running.id).status == "claimed" and live(running.id).started, 30)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert running.status() == "done"
    records = [handle.job() for handle in waiting]
    assert {(record.status, record.attempts) for record in records} == {("pending", 0)}


@pytest.mark.databases("postgresql")
def test_a_second_signal_stops_at_once(database, runworker):
    handle = tasks.sleep.enqueue(60)
    process = runworker()
    eventually(lambda: live(handle.id).started, 30)
    process.terminate()
    eventually(lambda: "draining" in process.stdout.readline(), 30)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert (handle.status(), handle.job().attempts) == ("pending", 0)


@pytest.mark.databases("postgresql")
def test_a_killed_worker_loses_nothing(database, runworker):
    running = tasks.sleep.using(lease=1).enqueue(60)
    waiting = tasks.double.using(lease=1).enqueue(4)
    process = runworker("--threads", "1")
    eventually(lambda: live(running.id).started, 30)
    process.kill()
    process.communicate()
    eventually(lambda: djqueue.maintenance.reap() or live(running.id).status == "pending", 30)
    assert running.job().last_error == "lease expired"
    eventually(lambda: (djqueue.maintenance.reap(), waiting.status() == "pending")[1], 30)
    djqueue.cancel(running)
    runworker("--burst").communicate(timeout=60)
    assert (waiting.status(), waiting.job().attempts) == ("done", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--queue", "a b"], "contains the character"),
        (["--queue", "a=x"], "the concurrency must be a whole number"),
        (["--queue", "a=0"], "the concurrency must be a whole number"),
        (["--threads", "0"], "--threads must be 1 or more"),
        (["--max-jobs", "0"], "--max-jobs must be 1 or more"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(CommandError, match=message):
        call_command("runworker", *arguments)
