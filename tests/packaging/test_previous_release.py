"""The previous release beside this one, on the tables of this one, as during a rolling deployment (FAILURES 40).

The previous release is the newest tag before this commit. As long as there is none, it is this commit itself: then the
test shows no more than that it works.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests import postgres
from tests.packaging.conftest import ROOT
from tests.packaging.environment import Environment, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

SETTINGS = """
import json
from pathlib import Path

SECRET_KEY = "upgrade"
USE_TZ = True
INSTALLED_APPS = ["djqueue", "shop"]
DATABASES = json.loads(Path(__file__).with_name("databases.json").read_text())
"""
TASKS = """
import djqueue

@djqueue.task
def double(n):
    return 2 * n

@djqueue.task(retry=djqueue.Fixed(0))
def fail_once(n):
    if djqueue.current_job().attempt == 1:
        raise ValueError("the first attempt")
    return 2 * n

@djqueue.task
async def double_async(n):
    return 2 * n

@djqueue.task
def double_later(n):
    if not djqueue.current_job().headers.get("late"):
        raise djqueue.PermanentFailure("the headers are lost")
    return 2 * n
"""
# Jobs of every kind that a release has had: the ids of all, as JSON.
ENQUEUE = """
import json
import djqueue
from shop import tasks

jobs = tasks.double.enqueue_many([djqueue.call(n) for n in range(%(count)d)])
jobs += [tasks.fail_once.enqueue(n) for n in range(5)] + [tasks.double_async.enqueue(n) for n in range(5)]
jobs += [tasks.double_later.using(delay=0.01, headers={"late": True}).enqueue(n) for n in range(5)]
jobs.append(tasks.double.using(dedup_key="one", dedup_until="done", kv={"made": 1}).enqueue(0))
print("ids", json.dumps([str(job.id) for job in jobs]))
"""
READ = """
import json
import djqueue
from pathlib import Path

def bad(record):
    attempts = 2 if record.task.endswith("fail_once") else 1
    return (record.status, record.result, record.attempts) != ("done", 2 * record.args[0], attempts)

records = [djqueue.get_job(id) for id in json.loads(Path("ids.json").read_text())]
print("bad", json.dumps([str(record) for record in records if record is None or bad(record)]))
"""
PYTHON = ("shell", "-v0", "-c")


def previous_revision() -> str:
    """Return the newest tag that is older than this commit, or this commit."""
    described = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1"]
    found = subprocess.run(described, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "HEAD"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the previous release, built from its source."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    folder = tmp_path_factory.mktemp("previous")
    archive = subprocess.run(["git", "archive", previous_revision()], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder / "source", filter="data")
    environment = Environment(folder / "environment")
    environment.pip("install", f"{folder / 'source'}[postgres]", "psycopg[binary]")
    return environment


@pytest.fixture(scope="module")
def current(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("current"))
    environment.pip("install", f"{wheel}[postgres]", "psycopg[binary]")
    return environment


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The settings of a database that both releases use."""
    if request.param == "sqlite":
        options = {"transaction_mode": "IMMEDIATE", "timeout": 60, "init_command": "PRAGMA journal_mode=WAL"}
        yield {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3"), "OPTIONS": options}
        return
    name = f"upgrade_{uuid4().hex}"
    settings = postgres.settings() | {"NAME": name}
    with psycopg.connect(os.environ[postgres.VARIABLE], autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield settings
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def project(empty_database: dict[str, Any], tmp_path: Path) -> Path:
    site = tmp_path / "site_of_a_user"
    (tmp_path / "shop").mkdir()
    site.mkdir()
    (tmp_path / "shop" / "tasks.py").write_text(TASKS)
    (site / "settings.py").write_text(SETTINGS)
    (site / "databases.json").write_text(json.dumps({"default": empty_database}))
    return tmp_path


def manage(release: Environment, project: Path, *arguments: str) -> str:
    django = [release.python, "-W", "error", "-m", "django", *arguments]
    return run(django, cwd=project, env={"DJANGO_SETTINGS_MODULE": "site_of_a_user.settings", "PYTHONPATH": "."})


def enqueue(release: Environment, project: Path, count: int = 20) -> list[str]:
    found = manage(release, project, *PYTHON, ENQUEUE % {"count": count})
    return list(json.loads(found.partition("ids ")[2]))


def assert_done(release: Environment, project: Path, ids: list[str]) -> None:
    (project / "ids.json").write_text(json.dumps(ids))
    assert json.loads(manage(release, project, *PYTHON, READ).partition("bad ")[2]) == []


def drain(release: Environment, project: Path, ids: list[str], reader: Environment) -> None:
    """Run a worker until nothing is due; a delayed job may become due just after it has looked."""
    manage(release, project, "runworker", "--burst", "--threads", "2")
    manage(release, project, "runworker", "--burst", "--threads", "2")
    assert_done(reader, project, ids)


def test_both_releases_work_on_the_tables_of_this_one(previous: Environment, current: Environment, project: Path):
    manage(previous, project, "migrate", "-v0")
    waiting = enqueue(previous, project)
    manage(current, project, "migrate", "-v0")
    drain(previous, project, waiting, reader=current)  # old jobs, old worker
    drain(previous, project, enqueue(current, project), reader=previous)  # new jobs, old worker
    drain(current, project, enqueue(previous, project), reader=current)  # old jobs, new worker
    both = enqueue(previous, project, 200) + enqueue(current, project, 200)
    workers = [
        threading.Thread(target=manage, args=[release, project, "runworker", "--burst", "--threads", "2"])
        for release in (previous, current)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    drain(current, project, both, reader=previous)
