"""Two settings modules with a queue database each, as docs/howto/scale.md describes it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import eventually

PAGE = (Path(__file__).parents[2] / "docs/howto/scale.md").read_text()
SETTINGS = """
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = ["djqueue", "shop"]
OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}
DATABASES = {
    name: {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{name}.sqlite3", "OPTIONS": OPTIONS}
    for name in ("default", "mail")
}
DJQUEUE = {"KEEP_DONE": 3600}
"""
TASKS = """
import djqueue

@djqueue.task(cron="0 0 1 1 *")
def greet(name="nobody"):
    print("hello", name, flush=True)
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
execute_from_command_line(sys.argv)
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        [mail] = re.findall(r"```python\n# shop/settings_mail\.py\n(.*?)```", PAGE, re.DOTALL)
        mail, replaced = re.subn(r"^DATABASES = .*\n", "", mail, flags=re.MULTILINE)  # SQLite files, as in SETTINGS
        assert replaced == 1
        (folder / "shop").mkdir()
        for name, text in {"__init__": "", "settings": SETTINGS, "settings_mail": mail, "tasks": TASKS}.items():
            (folder / "shop" / f"{name}.py").write_text(text)
        (folder / "manage.py").write_text(MANAGE)

    def run(self, command: str) -> str:
        """Run a command of the page, with more arguments, and return its output."""
        arguments = shlex.split(command)
        assert arguments[:2] == ["python", "manage.py"]
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        command_line = [sys.executable, *arguments[1:]]
        return subprocess.run(
            command_line, cwd=self.folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def commands() -> list[str]:
    """Return the commands of the section."""
    section = PAGE.split("## Several databases")[1].split("\n## ")[0]
    return re.findall(r"^\$ (python manage\.py .*)$", section, re.MULTILINE)


def test_each_worker_runs_the_jobs_of_its_own_database(project):
    migrate, worker, stats = commands()
    project.run("python manage.py migrate -v 0")
    project.run(migrate + " -v 0")
    project.run("""python manage.py djqueue enqueue shop.tasks.greet --args '["here"]'""")
    project.run(
        """python manage.py djqueue enqueue shop.tasks.greet --args '["there"]' --settings shop.settings_mail"""
    )
    assert "default" in project.run(stats)
    there = project.run(worker + " --burst")
    assert "hello there" in there
    assert "hello here" not in there
    here = project.run("python manage.py runworker --burst")
    assert "hello here" in here
    assert "hello there" not in here


def test_a_schedule_in_code_is_written_to_both_databases(project):
    migrate, worker, _ = commands()
    project.run("python manage.py migrate -v 0")
    project.run(migrate + " -v 0")
    project.run(worker + " --no-scheduler --burst")
    here = "python manage.py djqueue schedules"
    there = here + " --settings shop.settings_mail"
    assert "shop.tasks.greet" not in project.run(there)
    # A burst may end before its scheduler has written anything.
    eventually(lambda: project.run(worker + " --burst") and "shop.tasks.greet" in project.run(there), 120)
    assert "shop.tasks.greet" not in project.run(here)
    burst = "python manage.py runworker --burst"
    eventually(lambda: project.run(burst) and "shop.tasks.greet" in project.run(here), 120)
