"""`manage.py djqueue` in processes of its own: on a terminal, in a pipe, interrupted, and without a database."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from django.db import connections

import djqueue
from djqueue.models import DeadJob, Job
from djqueue.testing import worker
from tests.app import tasks
from tests.conftest import PLAIN
from tests.factories import DeadJobFactory, JobFactory
from tests.fill import fill
from tests.tools import eventually, rows

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@pytest.mark.databases(*PLAIN)
def test_requeue_asks_on_a_terminal(database, terminal):
    for _ in range(3):
        DeadJobFactory(queue="email")
    refused = terminal("requeue", "--queue", "email")
    refused.wait_for("Requeue 3 dead jobs of queue email? [y/N] ")
    refused.type("n\n")
    assert refused.wait() == 1
    assert "Nothing was changed." in refused.written
    assert rows(DeadJob).count() == 3
    agreed = terminal("requeue", "--queue", "email")
    agreed.wait_for("[y/N] ")
    agreed.type("y\n")
    assert agreed.wait() == 0
    assert "3 requeued." in agreed.written
    assert rows(Job).count() == 3


@pytest.mark.databases("sqlite")
def test_ctrl_c_at_the_question_changes_nothing(database, terminal):
    JobFactory()
    asked = terminal("cancel", "--all")
    asked.wait_for("Cancel 1 live job? [y/N] ")
    asked.type("\x03")
    assert asked.wait() == 1
    assert "Nothing was changed." in asked.written
    assert "Traceback" not in asked.written
    assert rows(Job).count() == 1


@pytest.mark.databases("postgresql")
def test_a_progress_bar_on_a_terminal_and_ctrl_c_between_batches(database, terminal):
    fill("djqueue_deadjob", 50_000, failed_at="now()")
    shown = terminal("requeue", "--all", "--yes")
    shown.wait_for("of 50,000 jobs requeued")
    eventually(lambda: rows(Job).exists(), 60)
    shown.wait_for("[#")
    shown.type("\x03")
    assert shown.wait() == 1
    assert "Interrupted: the remaining jobs were not requeued. Repeat the command for them." in shown.written
    assert "Traceback" not in shown.written
    moved = rows(Job).count()
    assert f"{moved:,} requeued." in shown.written
    assert rows(DeadJob).count() == 50_000 - moved > 0
    assert "%" in shown.written
    bars = [line for line in shown.written.replace("^C", "").replace("\x1b[K", "").split("\r") if line.startswith("[")]
    assert len(bars) > 1
    assert max(map(len, bars)) < 80


@pytest.mark.databases("postgresql")
def test_progress_in_a_pipe_is_lines_on_stderr(database, command):
    fill("djqueue_deadjob", 2_000, failed_at="now()")
    done = command.run("requeue", "--all", "--yes", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"requeued": 2000, "refused": [], "interrupted": False}
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert rows(Job).count() == 2_000


@pytest.mark.databases(*PLAIN)
def test_a_pipe_without_yes_is_refused(database, command):
    DeadJobFactory()
    done = command.run("requeue", "--all")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Requeue 1 dead job? There is no terminal to confirm this. Nothing was changed. Repeat it with --yes.\n"
    )


@pytest.mark.databases(*PLAIN)
def test_watch_on_a_terminal_is_a_live_screen(database, terminal):
    JobFactory(queue="email")
    live = terminal("stats", "--watch", "0.1")
    live.wait_for(ENTER)
    place = live.wait_for("email")
    JobFactory(queue="later")
    live.wait_for("later", after=place)
    assert live.written.count(ENTER) == 1
    assert "\x1b[2J" not in live.written  # the screen is not cleared, so it does not flicker
    live.type("q")
    assert live.wait() == 0
    assert live.written.endswith(LEAVE)
    assert live.modes() == live.before


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("end", ["ctrl-c", "sigterm"])
def test_the_screen_is_given_back_however_watch_ends(database, terminal, end):
    JobFactory(queue="email")
    live = terminal("stats", "--watch", "0.1")
    live.wait_for("email")
    if end == "ctrl-c":
        live.type("\x03")
    else:
        live.process.send_signal(signal.SIGTERM)
    assert live.wait() == (0 if end == "ctrl-c" else 143)
    assert LEAVE in live.written
    assert "Traceback" not in live.written
    assert live.modes() == live.before


@pytest.mark.databases("sqlite")
def test_the_screen_follows_the_size_of_the_window(database, terminal):
    for number in range(30):
        JobFactory(queue=f"queue-{number}")
    live = terminal("stats", "--watch", "0.2", size=(10, 80))
    live.wait_for("more lines")
    assert "queue-9 " not in live.written
    place = len(live.read())
    live.resize(60, 120)
    live.wait_for("queue-9 ", after=place)


@pytest.mark.databases("sqlite")
def test_the_screen_survives_a_database_that_is_away(database, terminal):
    JobFactory(queue="email")
    live = terminal("stats", "--watch", "0.1")
    live.wait_for("email")
    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_worker RENAME TO moved")
    try:
        place = live.wait_for("The database cannot be used: no such table: djqueue_worker")
    finally:
        with connections[database].cursor() as cursor:
            cursor.execute("ALTER TABLE moved RENAME TO djqueue_worker")
    live.wait_for("email", after=place)
    live.type("q")
    assert live.wait() == 0


@pytest.mark.databases(*PLAIN)
def test_watch_in_a_pipe_appends_lines(database, command):
    JobFactory(queue="email")
    process = command.start("stats", "--watch", "0.1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    rest, errors = process.communicate()
    assert errors == ""
    assert "\x1b" not in "".join(lines) + rest
    for line in lines:
        assert " queue=email pending=1 scheduled=0 blocked=0 claimed=0 dead=0 done=0 oldest=" in line
        assert line.endswith(" state=no_worker workers=0\n")


@pytest.mark.databases("sqlite")
def test_watch_as_json_is_one_object_per_line(database, command):
    JobFactory(queue="email")
    process = command.start("stats", "--watch", "0.1", "--json", stdout=subprocess.PIPE)
    shown = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.stdout.close()
    assert process.wait(60) == 0  # the reader has gone
    assert [each["queues"][0]["queue"] for each in shown] == ["email", "email"]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("arguments", [["jobs", "--limit", "500"], ["jobs", "--json", "--limit", "500"]])
def test_a_reader_that_closes_early_is_no_error(database, command, arguments):
    for _ in range(500):
        JobFactory()
    process = command.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.read(process.stdout.fileno(), 1)
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == ""
    assert process.wait(60) == 0


@pytest.mark.databases("sqlite")
def test_colours_only_on_a_terminal_that_wants_them(database, terminal, command):
    JobFactory(queue="email")
    for arguments, env, coloured in (
        (["stats"], {}, True),
        (["stats", "--no-color"], {}, False),
        (["stats"], {"NO_COLOR": "1"}, False),
        (["stats"], {"TERM": "dumb"}, False),
    ):
        shown = terminal(*arguments, env=env)
        assert shown.wait() == 0
        assert ("\x1b[31mno worker\x1b[0m" in shown.written) == coloured, (arguments, env)
        assert "no worker" in shown.written
    assert "\x1b" not in command.run("stats").stdout


@pytest.mark.databases("postgresql")
def test_a_database_that_is_away_is_one_line(database, command):
    away = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing"}
    for arguments in (
        ["stats"],
        ["stats", "--watch"],
        ["jobs"],
        ["requeue", "--all", "--yes"],
        ["show", str(DeadJobFactory().pk)],
    ):
        done = command.run(*arguments, env=away)
        assert (done.returncode, done.stdout) == (1, ""), arguments
        [line] = done.stderr.splitlines()
        assert line.startswith("CommandError: The database 'postgresql' cannot be used: connection")
    assert "Traceback" in command.run("stats", "--traceback", env=away).stderr


@pytest.mark.databases("sqlite")
def test_a_database_without_tables_is_one_line(database, command, tmp_path):
    command.argv[-1] = str(tmp_path / "empty.sqlite3")
    done = command.run("stats")
    assert done.returncode == 1
    assert done.stderr == (
        "CommandError: The tables of djqueue do not exist in the database 'sqlite'. "
        "Run manage.py migrate djqueue --database sqlite\n"
    )


@pytest.mark.databases("sqlite")
def test_bad_arguments_exit_with_2(database, command):
    for arguments in (["jobs", "--limit", "x"], ["jobs", "--since", "soon"], ["show"], ["show", "7"], ["requeue"]):
        done = command.run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert "Traceback" not in done.stderr


@pytest.mark.databases(*PLAIN)
def test_ctrl_c_while_waiting_leaves_the_job(database, terminal):
    waiting = terminal("enqueue", tasks.add.name, "--wait")
    eventually(lambda: rows(Job).exists(), 60)
    waiting.wait_for(str(rows(Job).get().pk))
    waiting.type("\x03")
    assert waiting.wait() == 1
    assert "Interrupted. The job is not affected." in waiting.written
    assert rows(Job).get().status == "pending"


@pytest.mark.databases("postgresql")
def test_requeued_jobs_run(database, command):
    jobs = [DeadJobFactory(args=[1, 2]).pk for _ in range(5)]
    with worker(threads=1):
        assert command.run("requeue", "--all", "--yes").returncode == 0
        assert [djqueue.wait(job, 60).record.result for job in jobs] == [3] * 5
