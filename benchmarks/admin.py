"""Measure the admin with a million rows: open every list, filter and search, and the pages of jobs, with 1,000,000
pending and 1,000,000 dead jobs, and print the time and the number of queries of each.

    python -m benchmarks.admin [--rows 1000000] [--most 1.0]

Exit with an error if the median of three runs of a page is longer than `--most` seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from tests import postgres

TASKS = ["shop.tasks.charge", "shop.tasks.send_invoice", "shop.tasks.import_feed"]
ERRORS = "'order ' || n || ': the card company does not answer'"
ENTRY = (
    """'{"at":"2026-01-01T00:00:00+00:00","attempt":3,"worker":"w","duration":1.5,"exception":"builtins.ValueError",'"""
    """ || '"message":"no answer","traceback":"' """
    """ || repeat('  File \\"shop/tasks.py\\", line 10, in charge ', 20) || '"}' || chr(10)"""
)
WORKER = (
    "INSERT INTO djqueue_worker (identity, host, pid, queues, loops, samples, started_at, heartbeat_at) "
    "VALUES ('w', 'h', 1, '[]', '{}', '[]', now(), now())"
)

PAGES = {
    "jobs": "job/",
    "jobs, page 100": "job/?p=100",
    "jobs, pending": "job/?status=pending",
    "jobs, scheduled (1,000 of them)": "job/?status=scheduled",
    "jobs, claimed (50)": "job/?status=claimed",
    "jobs, running (none)": "job/?status=running",
    "jobs, a queue": "job/?queue=q7",
    "jobs, a queue that is empty": "job/?queue=nothing",
    "jobs, a task": "job/?task=shop.tasks.charge",
    "jobs, a task that has none": "job/?task=shop.tasks.nothing",
    "jobs, with errors (none)": "job/?errors=yes",
    "jobs, late": "job/?late=minute",
    "jobs, late by a day (none)": "job/?late=day",
    "jobs, scheduled, by due time": "job/?status=scheduled&o=6",
    "jobs, scheduled, by due time, latest first": "job/?status=scheduled&o=-6",
    "jobs, search a queue": "job/?q=q17",
    "jobs, search an error that is not there": "job/?q=error:nothing",
    "jobs, search a text that is nowhere": "job/?q=nothing",
    "jobs, search an id": "job/?q={pending}",
    "jobs, search an id that is not there": "job/?q=0198c9b4-0000-7000-8000-00000000000a",
    "jobs, search a task": "job/?q=charge",
    "jobs, search an argument": "job/?q=order_id:999990",
    "jobs, search an argument that is not there": "job/?q=order_id:x",
    "jobs, search an argument that many have": "job/?q=shop:1",
    "dead jobs": "deadjob/",
    "dead jobs, page 100": "deadjob/?p=100",
    "dead jobs, a queue": "deadjob/?queue=q7",
    "dead jobs, a task": "deadjob/?task=shop.tasks.charge",
    "dead jobs, a task that has none": "deadjob/?task=shop.tasks.nothing",
    "dead jobs, an error": "deadjob/?task=shop.tasks.charge&error=order+%23:+the+card",
    "dead jobs, an error that none has": "deadjob/?task=shop.tasks.charge&error=nobody",
    "dead jobs, a group": "deadjob/?task=shop.tasks.charge&group=order+%23:+the+card+company+does+not+answer",
    "dead jobs, a group, of the last hour": "deadjob/?since=hour&task=shop.tasks.charge&group=order+%23:+the+card",
    "dead jobs, a group that has none": "deadjob/?task=shop.tasks.charge&group=order+%23:+the+card",
    "jobs that wait for a retry, a group": "job/?status=scheduled&since=hour&task=shop.tasks.charge&group=no+%23",
    "dead jobs, oldest first": "deadjob/?o=3",
    "dead jobs of the last hour": "deadjob/?since=hour",
    "dead jobs of the last week": "deadjob/?since=week",
    "dead jobs, a queue, of the last hour": "deadjob/?since=hour&queue=q7",
    "dead jobs, search an error": "deadjob/?q=order+999999",
    "dead jobs, search an error that many have": "deadjob/?q=company",
    "dead jobs, search a text that is nowhere": "deadjob/?q=nothing",
    "dead jobs, search an id": "deadjob/?q={dead}",
    "dead jobs, search a task": "deadjob/?q=invoice",
    "dead jobs, search an argument": "deadjob/?q=order_id:999990",
    "dead jobs, search an argument that is not there": "deadjob/?q=order_id:x",
    "done jobs": "donejob/",
    "done jobs of the last hour": "donejob/?since=hour",
    "done jobs of the last week": "donejob/?since=week",
    "done jobs, a queue, by end": "donejob/?queue=q7&o=9",
    "done jobs, a queue, by end, latest first": "donejob/?queue=q7&o=-9",
    "done jobs, search an error that is not there": "donejob/?q=error:nothing",
    "overview": "overview/",
    "queues": "queuestate/",
    "workers": "worker/",
    "the page of a worker that runs 50 jobs": "worker/w/change/",
    "kv": "kv/",
    "the page of a pending job": "job/{pending}/change/",
    "the page of a dead job": "deadjob/{dead}/change/",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--most", type=float, default=1.0, help="maximum time of a page in seconds")
    options = parser.parse_args()
    set_up()
    fill_tables(options.rows)
    slow = [name for name, took in measure().items() if took > options.most]
    if slow:
        sys.exit(f"slower than {options.most} s: {', '.join(slow)}")


def set_up() -> None:
    """Configure Django with one migrated database, the admin, and tasks with signatures."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    import tests.settings as of_tests

    settings.configure(
        DATABASES={"default": postgres.settings()},
        INSTALLED_APPS=[app for app in of_tests.INSTALLED_APPS if app != "tests.app"],
        MIDDLEWARE=of_tests.MIDDLEWARE[1:],
        TEMPLATES=of_tests.TEMPLATES,
        ROOT_URLCONF="tests.urls",
        STATIC_URL="/static/",
        SECRET_KEY="benchmark",
        USE_TZ=True,
        ALLOWED_HOSTS=["*"],
    )
    django.setup()
    call_command("migrate", verbosity=0)
    import djqueue

    for name in TASKS:

        @djqueue.task(name=name)
        def task(order_id, shop): ...


def fill_tables(rows: int) -> None:
    from tests.fill import fill

    from .depth import run

    start = time.perf_counter()
    common = {
        "task": f"(ARRAY{TASKS})[1 + mod(n, 3)]",
        "queue": "'q' || mod(n, 20)",
        "args": "'[' || n || ']'",
        "kwargs": """'{"shop":' || mod(n, 7) || '}'""",
    }
    waiting = common | {"run_at": "now() - interval '1 hour'"}
    fill("djqueue_job", rows, **waiting, status="'pending'")
    fill("djqueue_job", 1000, **common | {"run_at": "now() + interval '1 day'"}, status="'scheduled'")
    fill("djqueue_job", 50, **waiting, status="'claimed'", claimed_at="now()", lease_expires_at="now()", worker="'w'")
    died = {"failed_at": "now() - n * interval '1 second'", "last_error": ERRORS, "errors": ENTRY, "attempts": "3"}
    fill("djqueue_deadjob", rows, **common, **died)
    fill("djqueue_donejob", rows, **common, status="'done'", completed_at="now() - n * interval '1 second'")
    run(WORKER)
    run(  # a day of 20 queues and 3 tasks
        "INSERT INTO djqueue_throughput (minute, queue, task, wait_bucket, run_bucket, done, wait_sum, run_sum) "
        "SELECT date_trunc('minute', now()) - n % 1440 * interval '1 minute', 'q' || mod(n, 20), 'shop.tasks.charge', "
        "mod(n, 5), mod(n, 3), 10, 1, 1 FROM generate_series(1, 86400) n"
    )
    run("VACUUM ANALYZE djqueue_job, djqueue_deadjob, djqueue_donejob, djqueue_throughput")
    print(f"{rows} pending and {rows} dead rows made in {time.perf_counter() - start:.0f} s")


def measure() -> dict[str, float]:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from djqueue.admin.overview import snapshot
    from djqueue.models import DeadJob, Job

    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    ids = {"pending": Job.objects.order_by("id").first().pk, "dead": DeadJob.objects.order_by("id").first().pk}
    found = {}
    print(f"{'page':<50}{'first':>10}{'median':>10}{'queries':>10}   milliseconds")
    for name, path in PAGES.items():
        times = []
        for _ in range(3):
            snapshot.forget()  # the overview would not read anything again
            snapshot.THE_DAY.forget()
            start = time.perf_counter()
            with CaptureQueriesContext(connection) as queries:
                response = client.get(f"/admin/djqueue/{path.format(**ids)}")
            times.append(time.perf_counter() - start)
            assert response.status_code == 200, (path, response.status_code)
        found[name] = statistics.median(times)
        figures = f"{times[0] * 1000:>10.0f}{found[name] * 1000:>10.0f}{len(queries):>10}"
        print(f"{name:<50}{figures}", flush=True)
    return found


if __name__ == "__main__":
    main()
