"""The system checks: each mistake has its message, its hint, and its section in docs/reference/checks.md."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections
from django.test import override_settings

import djqueue
from djqueue import checks
from djqueue.core import registry
from djqueue.models import Worker
from djqueue.schedules import in_code
from djqueue.sql.workers import stored_queues
from tests.app.tasks import add
from tests.factories import WorkerFactory
from tests.tools import database_now, rows

ROOT = Path(__file__).parent.parent
IDS = {found for file in ROOT.glob("djqueue/**/*.py") for found in re.findall(r"djqueue\.[EW]\d{3}", file.read_text())}
BACKEND = "djqueue.contrib.django_tasks.DjqueueBackend"


class OwnBackend:
    """Stands for the subclass of a project; its module is that of the backend."""


class Subclass(OwnBackend): ...


OwnBackend.__module__ = "djqueue.contrib.django_tasks.backend"


@pytest.fixture(autouse=True)
def _tasks_and_schedules_kept(monkeypatch):
    registry.discover()
    monkeypatch.setattr(in_code, "_declared", {})
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))


def found(*databases: str) -> list[CheckMessage]:
    """Without databases, any query fails: these tests have no access to one."""
    tags = ["djqueue", *([checks.DATABASE] if databases else [])]
    return run_checks(tags=tags, databases=databases or None)


def ids(*databases: str) -> list[str]:
    return [message.id for message in found(*databases)]


# Documentation


def test_every_check_has_its_section_and_every_section_its_check():
    text = (ROOT / checks.DOCS).read_text()
    assert re.findall(r"^### (djqueue\.\w+):", text, re.MULTILINE) == sorted(IDS)
    assert re.findall(r'^<a id="(.+)"></a>$', text, re.MULTILINE) == sorted(IDS)
    assert re.findall(r"^\| \[(djqueue\.\w+)\]\(#\1\)", text, re.MULTILINE) == sorted(IDS)
    for section in text.split("### djqueue.")[1:]:
        assert "**Remedy:**" in section


def test_the_hint_of_a_message_names_its_section(settings):
    settings.DJQUEUE = {"LEASE": "30"}
    settings.USE_TZ = False
    assert [message.hint for message in sorted(found(), key=lambda message: message.id)] == [
        "See docs/reference/checks.md#djqueue.E001.",
        "Set USE_TZ = True in the settings. See docs/reference/checks.md#djqueue.E002.",
    ]


def test_a_check_can_be_silenced(settings):
    settings.DJQUEUE = {"DATABASE": "sqlite", "LEASE": 1}
    with override_settings(SILENCED_SYSTEM_CHECKS=["djqueue.W011"]):
        assert [message.is_silenced() for message in found()] == [True]


# Nothing raises, and nothing queries


@pytest.mark.parametrize(
    "setting",
    [None, [], 5, "x", {"DATABASE": None}, {"DATABASE": "no-such"}, {"QUEUES": None}, {"QUEUES": {1: 2}}, {5: 5}],
    ids=str,
)
@pytest.mark.parametrize(
    "tasks",
    [None, [], {"default": None}, {"a": {"BACKEND": 5}}, {"a": {"BACKEND": BACKEND, "QUEUES": 5}}],
    ids=str,
)
def test_no_check_raises_whatever_the_settings_are(settings, setting, tasks):
    settings.DJQUEUE = setting
    settings.TASKS = tasks
    assert set(ids()) <= {"djqueue.E001"}
    assert set(ids("default", "sqlite")) <= {"djqueue.E001"}


@pytest.mark.parametrize(
    "broken",
    [
        {"ENGINE": "no.such.engine"},
        {"ENGINE": "django.db.backends.oracle"},
        {"ENGINE": "django.db.backends.postgresql"},
        {"ENGINE": "django.db.backends.sqlite3", "NAME": "x", "OPTIONS": {"timeout": "20", "transaction_mode": 5}},
        {"ENGINE": "django.db.backends.postgresql", "NAME": "x", "OPTIONS": {"pool": {"max_size": "2"}}},
    ],
    ids=str,
)
def test_no_check_raises_whatever_the_database_is(settings, monkeypatch, broken):
    monkeypatch.setitem(connections.settings, "broken", {**connections.settings["default"], "OPTIONS": {}, **broken})
    monkeypatch.setitem(settings.DATABASES, "broken", broken)
    settings.DJQUEUE = {"DATABASE": "broken"}
    try:
        assert set(ids()) <= {"djqueue.W003"}
        assert set(ids("default")) <= {"djqueue.W003"}
    finally:
        connections["broken"].close() if "sqlite" in broken["ENGINE"] else None
        if hasattr(connections._connections, "broken"):
            del connections["broken"]


def test_a_database_that_cannot_be_reached_is_not_the_subject_of_a_check(settings, monkeypatch, django_db_blocker):
    broken = connections.settings["postgresql"] | {"HOST": "127.0.0.1", "PORT": "1", "OPTIONS": {}}
    monkeypatch.setitem(connections.settings, "broken", broken)
    monkeypatch.setitem(settings.DATABASES, "broken", broken)
    settings.DJQUEUE = {"DATABASE": "broken"}
    with django_db_blocker.unblock():
        assert ids("broken") == []
    del connections["broken"]


def test_a_good_project_passes_all_checks_on_every_database(database):
    assert ids(database) == []


# Databases


@pytest.mark.databases("postgresql")
def test_a_read_only_database_is_an_error(database):
    with connections[database].cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
        try:
            [message] = found(database)
        finally:
            cursor.execute("SET default_transaction_read_only = off")
    assert (message.id, message.msg) == ("djqueue.E012", "The database 'postgresql' is read-only.")
    assert "the alias of the primary" in message.hint


@pytest.mark.databases("sqlite")
def test_an_sqlite_without_returning_is_an_error(database, monkeypatch):
    monkeypatch.setattr(connections[database].Database, "sqlite_version_info", (3, 34, 1))
    [message] = found(database)
    assert message.id == "djqueue.E012"
    assert message.msg == "The database 'sqlite' is SQLite 3.34.1, which has no RETURNING."


@pytest.mark.databases("mysql")
@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("10.5.29-MariaDB", "is MariaDB 10.5.29, which has no SKIP LOCKED."),
        ("8.4.3", "is MySQL 8.4.3, which has no INSERT … RETURNING."),
    ],
)
def test_an_old_mariadb_and_mysql_are_errors(database, monkeypatch, version, problem):
    connection = connections[database]
    data = {**connection.mysql_server_data, "version": version}
    # What Django has learnt of the server is restored at the end.
    monkeypatch.setattr(connection, "__dict__", {**connection.__dict__})
    for name in ("mysql_server_info", "mysql_version", "mysql_is_mariadb"):
        connection.__dict__.pop(name, None)
    connection.__dict__["mysql_server_data"] = data
    [message] = found(database)
    assert (message.id, message.msg) == ("djqueue.E012", f"The database 'mysql' {problem}")


@pytest.mark.databases("sqlite")
def test_django_runs_the_database_checks_for_the_databases_that_it_is_given(database, monkeypatch):
    """As `manage.py migrate` and `manage.py check --database` do."""
    monkeypatch.setattr(connections[database].Database, "sqlite_version_info", (3, 34, 1))
    call_command("check", stdout=io.StringIO())
    with pytest.raises(SystemCheckError, match=r"djqueue\.E012"):
        call_command("check", databases=[database])


@pytest.mark.parametrize(
    ("pool", "size"),
    [({"max_size": 2}, 2), ({"min_size": 1, "max_size": 3}, 3), ({"min_size": 2}, 2)],
    ids=str,
)
def test_a_pool_that_is_smaller_than_the_threads_is_a_warning(settings, monkeypatch, pool, size):
    settings.DJQUEUE = {"DATABASE": "postgresql_pool"}
    monkeypatch.setitem(connections["postgresql_pool"].settings_dict["OPTIONS"], "pool", pool)
    [message] = found()
    assert message.id == "djqueue.W010"
    assert f"The connection pool of the database 'postgresql_pool' allows {size} connections" in message.msg
    assert "a worker opens at least 4: one per thread." in message.msg


@pytest.mark.parametrize("pool", [False, True, {}, {"max_size": 4}], ids=str)
def test_a_pool_that_is_large_enough_is_no_warning(settings, monkeypatch, pool):
    settings.DJQUEUE = {"DATABASE": "postgresql_pool"}
    monkeypatch.setitem(connections["postgresql_pool"].settings_dict["OPTIONS"], "pool", pool)
    assert found() == []


@pytest.mark.databases("postgresql_pool")
@pytest.mark.parametrize("threads", [20, 21])
def test_runworker_compares_the_pool_with_its_own_threads(database, threads):
    errors = io.StringIO()
    call_command("runworker", burst=True, processes=0, threads=threads, stderr=errors, verbosity=0)
    assert ("allows 20 connections, but a worker opens at least 21" in errors.getvalue()) == (threads == 21)


# Leases


def test_a_lease_shorter_than_the_interval_of_the_reaper_is_a_warning(settings):
    @djqueue.task(name="tests.hasty", lease=3)
    def hasty() -> None: ...

    settings.DJQUEUE = {
        "DATABASE": "sqlite",
        "LEASE": 2,
        "REAPER_INTERVAL": 4,
        "QUEUES": {"slow": {"lease": 4}, "fast": {"lease": 1.5}},
    }
    assert {message.id for message in found()} == {"djqueue.W011"}
    assert {message.msg.partition(" s,")[0] for message in found()} == {
        "DJQUEUE['LEASE'] is 2",
        "DJQUEUE['QUEUES']['fast']['lease'] is 1.5",
        "The lease of task tests.hasty is 3",
    }
    settings.DJQUEUE = {"DATABASE": "sqlite", "LEASE": 2, "REAPER_INTERVAL": 1}
    assert found() == []


# Names


@pytest.fixture
def install(tmp_path, monkeypatch, settings):
    """Add an app that consists of these files, before djqueue or after it."""
    made = []

    def make(name: str, files: dict[str, str], first: bool = True) -> None:
        for file, source in {"__init__.py": "", **files}.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        settings.INSTALLED_APPS = [name, *settings.INSTALLED_APPS] if first else [*settings.INSTALLED_APPS, name]
        monkeypatch.setattr(registry, "_discovered", False)
        made.append(name)

    settings.DJQUEUE = {"DATABASE": "sqlite"}
    yield make
    for module in [module for module in sys.modules if module.partition(".")[0] in made]:
        del sys.modules[module]


COMMAND = "management/commands/runworker.py"
OTHER = "from django.core.management.base import BaseCommand\nclass Command(BaseCommand): ...\n"
OWN = "from djqueue.management.commands.runworker import Command as Base\nclass Command(Base): ...\n"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("source", [OTHER, "1 / 0\n"], ids=["command", "broken"])
def test_a_second_runworker_command_is_a_warning(install, first, source):
    install("socketry", {COMMAND: source}, first)
    [message] = found()
    used = "socketry" if first else "djqueue"
    assert message.id == "djqueue.W002"
    assert message.msg == (
        "socketry also provides a runworker command. "
        f"Django uses that of {used}, which is listed first in INSTALLED_APPS."
    )
    assert "manage.py djqueue_worker" in message.hint


def test_a_project_may_extend_the_command(install):
    install("shop_commands", {COMMAND: OWN})
    assert found() == []


TASK = "import djqueue\n@djqueue.task(name='tests.app.tasks.add')\ndef other(): ...\n"
SCHEDULE = "import djqueue\nfor n in (1, 2):\n    djqueue.schedule('twice', task='tests.app.tasks.add', every=n)\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TASK, "Task name 'tests.app.tasks.add' is already registered for tests.app.tasks.add. Set another name for"),
        (SCHEDULE, "Schedule 'twice' is already declared with another definition."),
    ],
    ids=["task", "schedule"],
)
def test_two_of_the_same_name_are_an_error(install, source, message):
    install("doubles", {"tasks.py": source}, first=False)
    [error] = found()
    assert error.id == "djqueue.E010"
    assert error.msg.startswith(message)


def test_a_schedule_with_the_name_of_a_task_that_has_a_cron_is_an_error(settings):
    settings.DJQUEUE = {"DATABASE": "sqlite"}

    @djqueue.task(name="tests.nightly", cron="0 3 * * *")
    def nightly() -> None: ...

    assert found() == []
    djqueue.schedule("tests.nightly", task=add, every=60)
    [error] = found()
    assert error.id == "djqueue.E010"
    assert error.msg.startswith("Schedule 'tests.nightly' is declared twice: by cron= of the task")


def test_tasks_that_cannot_be_imported_are_an_error(install):
    install("unready", {"tasks.py": "import no_such_module\n"})
    [error] = found()
    assert error.id == "djqueue.E011"
    assert error.msg == (
        "ModuleNotFoundError: No module named 'no_such_module' "
        "The tasks of the app 'unready' could not be imported (module unready.tasks)."
    )


def test_queues_that_differ_only_in_case_are_a_warning(settings):
    settings.DJQUEUE = {"DATABASE": "sqlite", "QUEUES": {"Money": {"lease": 60}}}
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["MONEY", "default"]}}
    [message] = found()
    assert message.id == "djqueue.W013"
    assert message.msg == "These queues differ only in case, and are separate queues: MONEY, Money, money."


def test_a_bad_cron_of_a_task_is_an_error(settings):
    settings.DJQUEUE = {"DATABASE": "sqlite"}

    @djqueue.task(name="tests.never", cron="0 0 30 2 *")
    def never() -> None: ...

    [error] = found()
    assert error.id == "djqueue.E004"
    assert "Schedule 'tests.never': cron '0 0 30 2 *' never matches a date" in error.msg


# Queues that no worker consumes


def start_worker(*queues: str, exclude: tuple[str, ...] = (), **columns: object) -> None:
    stored = stored_queues(queues, exclude, claims=True)
    WorkerFactory(queues=stored, **{"heartbeat_at": database_now(), **columns})


def unconsumed(database: str) -> dict[str, str]:
    messages = [message for message in found(database) if message.id == "djqueue.W012"]
    return dict(re.search(r"the queue '(.+?)' \((.+)\);", message.msg).groups() for message in messages)


def test_queues_that_no_running_worker_consumes_are_a_warning(database, settings):
    settings.TASKS = {
        "default": {"BACKEND": BACKEND, "QUEUES": ["default", "reports"]},
        "own": {"BACKEND": f"{__name__}.Subclass", "QUEUES": ["exports"]},
        "implied": {"BACKEND": BACKEND},
        "other": {"BACKEND": "django.core.cache.backends.dummy.DummyCache", "QUEUES": ["elsewhere"]},
    }
    assert unconsumed(database) == {}  # no worker is running
    start_worker("default", stopped_at=database_now())
    assert unconsumed(database) == {}  # nor now
    start_worker("default")
    found = {name: where for name, where in unconsumed(database).items() if name in ("money", "reports", "exports")}
    assert found == {
        "money": "task shop.charge",
        "reports": "TASKS['default']['QUEUES']",
        "exports": "TASKS['own']['QUEUES']",
    }
    assert not {"default", "elsewhere"} & set(unconsumed(database))
    start_worker(exclude=("reports",))
    assert unconsumed(database) == {"reports": "TASKS['default']['QUEUES']"}
    start_worker("reports", "exports")
    assert unconsumed(database) == {}


@pytest.mark.databases("postgresql", "sqlite")
def test_before_the_first_migration_there_are_no_workers(database):
    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE djqueue_worker RENAME TO djqueue_worker_later")
        try:
            assert ids(database) == []
        finally:
            cursor.execute("ALTER TABLE djqueue_worker_later RENAME TO djqueue_worker")
    assert not rows(Worker).exists()
