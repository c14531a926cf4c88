"""Metrics for Prometheus, read from the database at every scrape: any process can serve them. Extra: `prometheus`.

Put `metrics` into the URLs of the project, or register a `Collector` with a registry of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime

from django.db.models import Min, Sum
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector as BaseCollector
    from prometheus_client.registry import CollectorRegistry
except ImportError as error:
    raise ImportError(f"{__name__} requires prometheus_client: pip install 'django-djqueue[prometheus]'.") from error

from djqueue.access import closed
from djqueue.models import Schedule, Throughput
from djqueue.operations.rates import Histogram
from djqueue.sql import Statements, counts, statements, workers
from djqueue.states import Outcome

# The decimals of a sum of seconds. A database may add up floats in another order at the next scrape, and a sum that is
# smaller in its last digit would look like a counter that was reset.
DECIMALS = 3
OUTCOMES = (Outcome.DONE, Outcome.DEAD, Outcome.CANCELLED, Outcome.RETRYING)
SUMS = ("done", "failed", "dead", "cancelled", "wait_sum", "run_sum")


class Collector(BaseCollector):
    """Reads all metrics with six statements, however many queues, tasks and jobs there are."""

    def describe(self) -> Iterable[Metric]:
        return []  # so that registering a collector does not query the database

    def collect(self) -> Iterable[Metric]:
        database = statements()
        yield from _jobs(database, now := database.now())
        yield from _finished(database)
        alive = workers.claiming(database).count()
        yield GaugeMetricFamily("djqueue_workers", "Worker processes that are alive and claim jobs.", alive)
        yield _schedule_lag(database, now)


@closed
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics, in the format that the client accepts."""
    registry = CollectorRegistry()
    registry.register(Collector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _jobs(database: Statements, now: datetime) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "djqueue_jobs", "Jobs by state, as in stats(): done jobs are those of all time.", labels=["queue", "state"]
    )
    oldest = GaugeMetricFamily(
        "djqueue_oldest_pending_seconds",
        "How long the oldest pending job has been waiting; 0 if none is pending.",
        labels=["queue"],
    )
    since = database.oldest_pending()
    for queue, stats in sorted(counts.overview(database).items()):
        for state, count in asdict(stats).items():
            jobs.add_metric([queue, state], count)
        oldest.add_metric([queue], _seconds(since.get(queue), now))
    yield from (jobs, oldest)


def _finished(database: Statements) -> Iterator[Metric]:
    """Read the counters, all with one statement: they agree with each other, and a concurrent roll_up() is not seen."""
    totals: dict[tuple[str, str], Counter[Outcome]] = {}
    waits: dict[str, Histogram] = defaultdict(Histogram)
    runs: dict[str, Histogram] = defaultdict(Histogram)
    cells = Throughput.objects.using(database.alias).values_list("queue", "task", "wait_bucket", "run_bucket")
    for queue, task, wait_bucket, run_bucket, *sums in cells.annotate(*map(Sum, SUMS)):
        done, failed, dead, cancelled = map(int, sums[:4])
        total = totals.setdefault((queue, task), Counter(dict.fromkeys(OUTCOMES, 0)))
        total.update(dict(zip(OUTCOMES, (done, dead, cancelled, failed - dead), strict=True)))
        # Cancelled jobs are not in the histograms: most of them never ran.
        waits[queue].add(wait_bucket, done + failed, sums[4])
        runs[queue].add(run_bucket, done + failed, sums[5])
    finished = CounterMetricFamily(
        "djqueue_finished", "Attempts that ended, by their outcome.", labels=["queue", "task", "outcome"]
    )
    for (queue, task), total in sorted(totals.items()):
        for outcome, count in total.items():
            finished.add_metric([queue, task, outcome.value], count)
    yield finished
    yield _family("djqueue_wait_seconds", "Seconds from when an attempt was due until it was claimed.", waits)
    yield _family("djqueue_run_seconds", "Seconds from the claim of an attempt until its end.", runs)


def _family(name: str, documentation: str, histograms: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, documentation, labels=["queue"])
    for queue, histogram in sorted(histograms.items()):
        family.add_metric([queue], histogram.cumulative(), round(histogram.seconds, DECIMALS))
    return family


def _schedule_lag(database: Statements, now: datetime) -> Metric:
    # SQLite would not use the index for a plain enabled=True.
    enabled = Schedule.objects.using(database.alias).filter(enabled__in=[True])
    next_at = enabled.aggregate(first=Min("next_at"))["first"]
    return GaugeMetricFamily(
        "djqueue_schedule_lag_seconds",
        "How late the most overdue schedule is; 0 if none is due.",
        _seconds(next_at, now),
    )


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
