"""`manage.py runworker` for benchmarks: `python -m benchmarks.runworker [arguments …]`, on DATABASE_URL.

DJQUEUE is read from the environment as JSON. Each statement appends one byte to the file BENCHMARK_STATEMENTS; for a
claim, the byte is "c".
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
import environ
from django.conf import settings
from django.core.management import call_command
from django.db.backends.signals import connection_created


def count_statements(path: str) -> None:
    counter = os.open(path, os.O_WRONLY | os.O_APPEND)

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        os.write(counter, b"c" if "WITH asked" in sql else b"x")
        return execute(sql, params, many, context)

    def begin(connection: Any, **kwargs: Any) -> None:
        if count not in connection.execute_wrappers:
            connection.execute_wrappers.append(count)

    connection_created.connect(begin, weak=False)


if __name__ == "__main__":
    settings.configure(
        DATABASES={"default": environ.Env().db("DATABASE_URL")},
        INSTALLED_APPS=["djqueue", "benchmarks"],
        USE_TZ=True,
        DJQUEUE=json.loads(os.environ.get("DJQUEUE", "{}")),
    )
    django.setup()
    if "BENCHMARK_STATEMENTS" in os.environ:
        count_statements(os.environ["BENCHMARK_STATEMENTS"])
    call_command("runworker", *sys.argv[1:])
