"""Mistakes of the first hour: the command names them, with the exit codes of docs/guides/worker.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

import djqueue
from tests.worker import tasks
from tests.worker.process.test_worker import PLAIN

BAD_ARGUMENTS = [
    (["--queue", ""], "queue must be a non-empty string"),
    (["--queue", "a b"], "contains the character"),
    (["--queue", "a=x"], "the concurrency must be a whole number"),
    (["--queue", "a=0"], "the concurrency must be a whole number"),
    (["--queue", "a=²"], "the concurrency must be a whole number"),
    (["--queue", f"a={'9' * 5000}"], "the concurrency must be a whole number"),
    (["--exclude", ""], "queue must be a non-empty string"),
    (["--queue", "a=2", "--queue", "b", "--exclude", "a"], "--queue and --exclude must not name the same queue, got a"),
    (["--name", "x" * 300], "--name must be at most 255 characters"),
    (["--name", "a\x00b"], "--name must be at most 255 characters, without NUL"),
    (["--threads", "0"], "--threads must be 1 or more"),
    (["--processes", "-1"], "--processes must be 0 or more"),
    (["--max-jobs", "0"], "--max-jobs must be 1 or more"),
    (["--max-memory", "0"], "--max-memory must be 1 or more"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(CommandError, match=message) as raised:
        call_command("djqueue_worker", *arguments)
    assert raised.value.returncode == 2


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(
    "arguments",
    [["--processes", "-1"], ["--queue", ""], ["--queue", "a", "--exclude", "a"], ["--threads", "many"], ["--bursts"]],
)
def test_bad_arguments_have_the_exit_code_2(database, site, arguments):
    worker = site.start(*arguments)
    assert worker.process.wait(60) == 2
    assert "Traceback" not in worker.log()


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
@pytest.mark.parametrize(
    "options",
    [
        {"MAX_ATEMPTS": 3},
        {"LEASE": "30"},
        {"DATABASE": "nowhere"},
        {"QUEUES": {"email": {"leese": 3}}},
        {"A": 1, "B": 2},
    ],
    ids=str,
)
def test_a_mistake_in_the_settings_is_reported_as_by_manage_py_check(database, site, settings, processes, options):
    worker = site.start("--processes", processes, **options)
    assert worker.process.wait(60) == 1
    assert "Traceback" not in worker.log()
    settings.DJQUEUE = {"DATABASE": database} | options
    messages = run_checks(tags=["djqueue"])
    settings.DJQUEUE = {"DATABASE": database}
    assert len(messages) == len(options)
    assert all(str(message) in worker.log() for message in messages)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_use_tz_false_is_refused(database, site, processes):
    worker = site.start("--processes", processes, env={"DJQUEUE_TEST_WITHOUT_TZ": "1"})
    assert worker.process.wait(60) == 1
    assert "(djqueue.E002) djqueue requires USE_TZ = True" in worker.log()
    assert "HINT: Set USE_TZ = True" in worker.log()
    assert "Traceback" not in worker.log()


@pytest.mark.parametrize(
    "use", [tasks.double.enqueue, djqueue.queues, lambda n: djqueue.schedules.create("s", task=tasks.double, every=60)]
)
def test_use_tz_false_is_reported_at_first_use(database, settings, use):
    """Without this, some statements worked and others failed, with errors that do not name the cause."""
    settings.USE_TZ = False
    try:
        with pytest.raises(ImproperlyConfigured, match="djqueue requires USE_TZ = True"):
            use(*[1] * (use is not djqueue.queues))
    finally:
        settings.USE_TZ = True


def test_a_database_that_is_not_supported_is_a_check_error(settings, monkeypatch):
    from django.db import connections

    settings.DJQUEUE = {"DATABASE": "default"}
    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    [message] = run_checks(tags=["djqueue"])
    assert message.id == "djqueue.E005"
    assert message.msg == "djqueue supports PostgreSQL, SQLite and MariaDB, but DATABASES['default'] is 'oracle'."


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_tasks_that_cannot_be_imported_are_named(database, site, tmp_path, processes, source, error):
    worker = site.start("--processes", processes, env=app(tmp_path, source))
    assert worker.process.wait(60) == 1
    assert error in worker.log()
    assert "The tasks of the app 'broken' could not be imported (module broken.tasks)." in worker.log()
    assert worker.log().count("Traceback") == 1


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_schedule_with_a_mistake_is_reported(database, site, tmp_path, processes):
    source = "import djqueue\n@djqueue.task(cron='99 * * * *')\ndef tick(): ...\n"
    worker = site.start("--processes", processes, env=app(tmp_path, source))
    assert worker.process.wait(60) == 1
    assert "(djqueue.E004) Schedule 'broken.tasks.tick'" in worker.log()
    assert "Traceback" not in worker.log()


def app(folder: Path, source: str) -> dict[str, str]:
    """Return the environment of a project that has another app."""
    (folder / "broken").mkdir()
    (folder / "broken" / "__init__.py").touch()
    (folder / "broken" / "tasks.py").write_text(source)
    return {"PYTHONPATH": f"{folder}:.", "DJQUEUE_TEST_APP": "broken"}


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_database_that_cannot_be_reached_is_reported_once_and_again_after_a_while(database, site, processes):
    url = re.sub(r"^(\w+://)(.*)$", r"\1nobody:wrong@127.0.0.1:1/nothing", os.environ["DATABASE_URL"])
    env = {"DATABASE_URL": url, "DJQUEUE_TEST_REMIND_AFTER": "2"}
    worker = site.start("--processes", processes, env=env)
    reason = "Waiting for the database 'postgresql' (test_djqueue): "
    worker.wait_for_log(reason)
    assert "Connection refused" in worker.log()
    assert worker.log().count(reason) == 1
    worker.wait_for_log("\n" + reason)  # the reminder
    assert worker.stop() == 0
    assert "Traceback" not in worker.log()


@pytest.mark.databases(*PLAIN)
@pytest.mark.parametrize("processes", ["0", "1"])
def test_missing_tables_are_reported_with_the_command_that_creates_them(database, site, processes, tmp_path):
    from django.db import connections

    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_job RENAME TO djqueue_job_later")
        try:
            worker = site.start("--processes", processes)
            name = connections[database].settings_dict["NAME"]
            worker.wait_for_log(
                f"The tables of djqueue do not exist in the database {database!r} ({name}); "
                f"waiting for manage.py migrate djqueue --database {database}"
            )
            assert worker.stop() == 0
        finally:
            cursor.execute("ALTER TABLE djqueue_job_later RENAME TO djqueue_job")


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("processes", ["0", "1"])
@pytest.mark.parametrize("complete", [True, False])
def test_sqlite_without_the_recommended_options_is_a_warning(database, site, processes, complete):
    env = {} if complete else {"DJQUEUE_TEST_PLAIN_SQLITE": "1"}
    worker = site.start("--burst", "--processes", processes, env=env)
    assert worker.process.wait(60) == 0
    assert ("(djqueue.W003) The SQLite database 'sqlite' may raise \"database is locked\"" in worker.log()) != complete
    assert ('"transaction_mode": "IMMEDIATE"' in worker.log()) != complete


def test_the_project_in_one_file_runs_without_a_warning(tmp_path):
    page = Path("docs/guides/one_file.md").read_text()
    [source] = re.findall(r"```python\n(# hello\.py: .*?)```", page, re.DOTALL)
    (tmp_path / "hello.py").write_text(source)
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "hello.py"],
        cwd=tmp_path,
        env=env | {"PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hello, Ada!" in done.stdout
