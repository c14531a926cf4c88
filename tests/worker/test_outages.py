from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest
from django.db import OperationalError, connections

from djqueue.waiting.wakeup_sources import shut_down, socket_of
from djqueue.worker.outages import AWAY, Outages

SLEEP = {"postgresql": "SELECT pg_sleep(60)", "mysql": "SELECT SLEEP(60)"}
SESSION = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
END = {"postgresql": "SELECT pg_terminate_backend(%s)", "mysql": "KILL %s"}


@pytest.mark.databases("postgresql", "mysql")
def test_a_statement_without_a_response_is_cancelled_by_another_thread(database):
    outages = Outages(pytest.fail)
    outages.start()
    start = time.monotonic()
    # MariaDB returns 1 from a SLEEP that is cancelled.
    with suppress(OperationalError), outages.watching("a test", lambda: 0.1), connections[database].cursor() as cursor:
        cursor.execute(SLEEP[database])
    outages.stop()
    assert time.monotonic() - start < 40
    connections[database].close()


@pytest.mark.databases("postgresql", "mysql")
def test_a_connection_is_shut_down_by_another_thread_while_it_waits(database):
    """What follows if the server does not respond to the request to cancel the statement either."""
    with connections[database].cursor() as cursor:
        cursor.execute(SESSION[database])
        [session] = cursor.fetchone()
        hang_up = threading.Timer(0.2, shut_down, [socket_of(connections[database])])
        hang_up.start()
        with pytest.raises(AWAY):
            cursor.execute(SLEEP[database])
    connections[database].close()
    with connections[database].cursor() as cursor, suppress(OperationalError):  # MariaDB has ended it
        cursor.execute(END[database], [session])
