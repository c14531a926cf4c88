"""The project of the documentation, ready to use. Imported only by the process from which others are forked."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

SITE = Path(__file__).parent / "site"
sys.path.insert(0, str(SITE))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django  # noqa: E402
import environ  # noqa: E402
from asgiref.local import Local  # noqa: E402

if django.VERSION < (6, 0):
    import django_tasks  # its backport has the same names

    sys.modules["django.tasks"] = django_tasks
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from shop.models import Order  # noqa: E402

from djqueue.models import DeadJob, Job  # noqa: E402

DATABASE = Path(settings.DATABASES["default"]["NAME"])
DATABASE.unlink(missing_ok=True)
call_command("migrate", verbosity=0)
Order.objects.create(customer=User.objects.create_user("ada", "ada@example.com"), total="9.90")
connections.close_all()
for module in ("djqueue.worker.single_process", "django.core.checks.registry", "pytest", "asyncio"):
    import_module(module)  # once, instead of in each process


def enter() -> None:
    """Give this process, which was just forked, a copy of the database, and another one for tests that it runs."""
    sys.path.insert(0, str(SITE))  # multiprocessing has replaced it
    package = sys.modules["mysite"] = ModuleType("mysite")  # for settings that begin with: from .settings import *
    package.__path__ = [str(SITE)]
    own = connections["default"].settings_dict
    own["NAME"] = shutil.copy(DATABASE, DATABASE.with_name(f"docs-{os.getpid()}.sqlite3"))
    own["TEST"]["NAME"] = shutil.copy(DATABASE, DATABASE.with_name(f"docs-{os.getpid()}-test.sqlite3"))


def given() -> dict[str, Any]:
    """Return the names that every page may use without an import."""
    order = Order.objects.get()
    request = RequestFactory().get("/")
    request.user = order.customer
    return {"order": order, "user": order.customer, "request": request}


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Let `connections` follow the DATABASES of the block."""
    before = vars(connections).copy()
    vars(connections).update(_connections=Local())
    vars(connections).pop("settings", None)
    try:
        yield
    finally:
        vars(connections).clear()
        vars(connections).update(before)


NAMES_IN_SETTINGS = ("INSTALLED_APPS", "MIDDLEWARE", "DATABASES", "TEMPLATES", "DJQUEUE")


def names_in_settings() -> dict[str, Any]:
    """Return the names that a settings file has before the block: those of `startproject`, and `env`."""
    return {
        "__package__": "mysite",
        "__file__": str(SITE / "settings.py"),
        "BASE_DIR": SITE,
        "env": environ.Env(),
        **deepcopy({name: getattr(settings, name) for name in NAMES_IN_SETTINGS}),
    }


def run_jobs() -> None:
    """Run the jobs that are due, as a worker would have done meanwhile."""
    call_command("runworker", burst=True, processes=0, verbosity=0)


def mistakes_in_jobs(mistakes: set[str]) -> list[str]:
    """Run the jobs that the page has left, and return the tracebacks of mistakes in their code."""
    if Job.objects.filter(status__in=["pending", "blocked"]).exists():
        run_jobs()
    errors = [error for table in (Job, DeadJob) for job in table.objects.all() for error in job.errors]
    return [error["traceback"] for error in errors if error["exception"].rpartition(".")[2] in mistakes]
