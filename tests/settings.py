"""Every database at once. `default` has the admin's users and log; no query of djqueue's goes to it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import django
import environ
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from tests import pgbouncer, postgres

SECRET_KEY = "tests"
ALLOWED_HOSTS = ["localhost", "testserver"]
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "djqueue",
    "tests.app",
]
if django.VERSION < (6, 0) and find_spec("django_tasks"):
    INSTALLED_APPS.append("django_tasks")
DJQUEUE_BACKEND = "djqueue.contrib.django_tasks.DjqueueBackend"
TASKS = {
    "default": {"BACKEND": DJQUEUE_BACKEND, "QUEUES": ["default", "queue-1"]},
    "once": {"BACKEND": DJQUEUE_BACKEND, "QUEUES": [], "OPTIONS": {"max_attempts": 1}},
    "immediate": {"BACKEND": "djqueue.contrib.django_tasks.testing.ImmediateBackend", "QUEUES": []},
    "dummy": {"BACKEND": "djqueue.contrib.django_tasks.testing.DummyBackend", "QUEUES": []},
}
MIDDLEWARE = [
    "tests.app.middleware.strict_csp",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "/static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASE_ROUTERS = ["tests.app.routers.ToTheWrongPlace"]

if "DJQUEUE_TEST_SCRATCH" not in os.environ:  # child processes find it there
    os.environ["DJQUEUE_TEST_SCRATCH"] = tempfile.mkdtemp(prefix="djqueue-")
    atexit.register(shutil.rmtree, os.environ["DJQUEUE_TEST_SCRATCH"], ignore_errors=True)
SCRATCH = Path(os.environ["DJQUEUE_TEST_SCRATCH"])
POSTGRESQL = {**postgres.settings(), "TEST": {"NAME": "test_djqueue"}}
SQLITE = {"ENGINE": "django.db.backends.sqlite3"}
SHARED_SQLITE = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 30,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}


def mirror(**options: object) -> dict[str, object]:
    """The same PostgreSQL database by another kind of connection."""
    return POSTGRESQL | {"OPTIONS": POSTGRESQL.get("OPTIONS", {}) | options, "TEST": {"MIRROR": "postgresql"}}


if "DJQUEUE_TEST_PLAIN_SQLITE" in os.environ:
    SHARED_SQLITE = {}  # as in a new project


DATABASES = {
    "default": SQLITE | {"NAME": ":memory:"},
    "postgresql": POSTGRESQL,
    "postgresql_pool": mirror(pool={"min_size": 0, "max_size": 20}),
    "postgresql_bound": mirror(server_side_binding=True),
    "postgresql_repeatable": mirror(isolation_level=IsolationLevel.REPEATABLE_READ),
    "sqlite": SQLITE
    | {"NAME": SCRATCH / "live.sqlite3", "TEST": {"NAME": SCRATCH / "test.sqlite3"}, "OPTIONS": SHARED_SQLITE},
}
PGBOUNCER = SCRATCH.with_name(f"{SCRATCH.name}-pgb")  # its own: the user of the server must reach it
if pgbouncer.PROGRAM and pgbouncer.server_folder(POSTGRESQL):  # the conftest starts it for the first test that needs it
    through_it = {"HOST": str(PGBOUNCER), "PORT": str(pgbouncer.PORT), "OPTIONS": {}}
    DATABASES["postgresql_pgbouncer"] = mirror() | through_it | {"DISABLE_SERVER_SIDE_CURSORS": True}
if "DJQUEUE_TEST_MYSQL_URL" in os.environ:
    DATABASES["mysql"] = environ.Env().db("DJQUEUE_TEST_MYSQL_URL")

DJQUEUE = {"DATABASE": "postgresql"}
