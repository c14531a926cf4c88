"""One session, every database: a test that takes `database` runs and commits on each of them."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import DatabaseError, connections
from django.test.utils import setup_databases, teardown_databases
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from djqueue.sql.postgresql.rushes import rush_of
from djqueue.sql.postgresql.statements import PostgreSQL
from tests import postgres
from tests.pgbouncer import pgbouncer
from tests.proxy import Proxy
from tests.worker.site import Site
from tests.worker.site import site as make_site

# A slow or busy machine is no reason to fail.
hypothesis_settings.register_profile("djqueue", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("djqueue")

CONFORMANCE = [alias for alias in django_settings.DATABASES if alias != "default"]
# Left out where another run of the suite covers them: names from a space-separated list.
LEFT_OUT = os.environ.get("DJQUEUE_TEST_WITHOUT", "").split()
PLAIN = [alias for alias in CONFORMANCE if not alias.startswith("postgresql_")]
# A test that times out may hang again in its clean-up, for example where it joins a thread: it is interrupted so often.
INTERRUPT_EVERY = 5.0
EXIT_WITHIN = 60.0
TIMEOUT = pytest.StashKey[Any]()
TABLES = ["job", "donejob", "deadjob", "kv", "schedule", "worker", "queuestate", "limitkey", "throughput"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: pytest.FixtureRequest) -> Iterator[ExitStack]:
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False)
        with ExitStack() as services:
            yield services
        for alias in CONFORMANCE:
            connections[alias].close()
            if hasattr(connections[alias], "close_pool"):
                connections[alias].close_pool()
        teardown_databases(made, verbosity=0)


@pytest.fixture(scope="session")
def through_pgbouncer(django_db_setup: ExitStack) -> None:
    """Start the PgBouncer of the alias "postgresql_pgbouncer", if configured; stop it before databases are dropped."""
    if "postgresql_pgbouncer" in connections:
        django_db_setup.enter_context(pgbouncer("postgresql", django_settings.PGBOUNCER))


@pytest.fixture
def database(request: pytest.FixtureRequest, django_db_setup: object, django_db_blocker, settings) -> Iterator[str]:
    """The alias of the database under test, empty before and after; what the test writes is committed."""
    alias = getattr(request, "param", "postgresql")
    settings.DJQUEUE = {"DATABASE": alias}
    rush_of.cache_clear()  # a test before may have been in a rush
    PostgreSQL.slow_share = 0.0
    if alias == "postgresql_pgbouncer":
        request.getfixturevalue("through_pgbouncer")
    with django_db_blocker.unblock():
        clear(alias)
        yield alias
        connections[alias].rollback() if not connections[alias].get_autocommit() else None
        clear(alias)


@pytest.fixture
def configure(settings, database: str):
    """Set DJQUEUE options beside the database under test."""

    def set_options(**options: object) -> None:
        settings.DJQUEUE = {"DATABASE": database, **options}

    return set_options


@pytest.fixture
def site(database: str, tmp_path: Path) -> Iterator[Site]:
    """Workers on the database under test, in processes of their own."""
    with make_site(database, tmp_path) as place:
        yield place


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A proxy before the tests' own PostgreSQL, which loses what a test tells it to."""
    if not postgres.is_ours():
        pytest.skip("needs the tests' own PostgreSQL: unset DATABASE_URL")
    folder = tmp_path / "proxy"
    folder.mkdir()
    made = Proxy(folder)
    yield made
    made.close()


def clear(alias: str) -> None:
    try:
        delete_all(alias)
    except DatabaseError:  # a test that timed out was interrupted in the middle of a statement
        connections[alias].close()
        delete_all(alias)


def delete_all(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"DELETE FROM djqueue_{table}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("databases")
        aliases = [alias for alias in CONFORMANCE if only is None or alias in only.args]
        missing = [pytest.param("mysql", marks=pytest.mark.skip(reason="set DJQUEUE_TEST_MYSQL_URL to a MariaDB"))]
        kept = [alias for alias in aliases if alias not in LEFT_OUT]
        metafunc.parametrize("database", kept or aliases or missing, indirect=True)


def pytest_configure(config: pytest.Config) -> None:
    # A shell that runs the tests in the background makes them ignore SIGINT, and with them whatever they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "databases(*aliases): run on these databases alone")


def pytest_report_header() -> str:
    tested = [alias for alias in CONFORMANCE if alias not in LEFT_OUT]
    return f"databases: {', '.join(tested)}; PostgreSQL at {os.environ['DATABASE_URL'].split('@')[-1]}"


def pytest_terminal_summary(terminalreporter) -> None:
    if "mysql" not in CONFORMANCE:
        terminalreporter.write_line("MariaDB was not tested: set DJQUEUE_TEST_MYSQL_URL, for example by .ci/run")


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    item.stash[TIMEOUT] = settings
    armed = yield
    if settings.method == "signal":
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, INTERRUPT_EVERY)
    return armed


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time the teardown by itself: pytest-timeout cancels the timer of a test that has failed."""
    if (settings := item.stash.get(TIMEOUT, None)) is not None:
        item.config.hook.pytest_timeout_cancel_timer(item=item)
        item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)


def pytest_unconfigure() -> None:
    """Exit all the same if a thread that a test left behind would keep the interpreter alive."""
    watchdog = threading.Timer(EXIT_WITHIN, exit_with_stacks)
    watchdog.daemon = True
    watchdog.start()


def exit_with_stacks() -> None:
    faulthandler.dump_traceback()
    atexit._run_exitfuncs()  # they stop the PostgreSQL server
    os._exit(1)
