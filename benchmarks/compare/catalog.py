"""Which systems there are, with what they need and the settings they run with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODULES = "benchmarks.compare.systems"
REQUIREMENTS = Path(__file__).parent / "systems"


@dataclass(frozen=True)
class Entry:
    """A system, as the harness knows it."""

    name: str
    title: str
    jobs: float  # how many jobs it gets, in relation to djqueue, so that its runs take about as long
    module: str = ""
    needs: str = "postgresql"
    python: str | None = None  # the oldest Python that it supports, if that is newer than djqueue's
    bulk: bool = True
    sqlite: bool = False  # it is also measured on SQLite
    depth: bool = False  # its rows can be multiplied on the server
    queues: bool = False  # it can have a hundred queues
    processes: bool = False  # a worker can have several processes
    payloads: bool = False  # its jobs can have arguments of a given length
    coroutines: bool = False  # it has plain and `async def` tasks
    project: str = ""  # the settings of its Django project, whose memory without jobs is compared
    threads: bool = False  # it runs sleeping tasks in a given number of threads
    settings: tuple[dict[str, Any], ...] = field(default_factory=lambda: ({},))  # all are measured, the best counts

    @property
    def command(self) -> list[str]:
        """The arguments after `python`."""
        return ["-m", f"{MODULES}.{self.module or self.name}"]

    @property
    def requirements(self) -> Path | None:
        """The file with the packages of its environment; None for what runs in djqueue's own."""
        path = REQUIREMENTS / f"{self.name}.txt"
        return path if path.exists() else None


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("limit", "the limit (psycopg by hand)", 2, depth=True, queues=True, processes=True, payloads=True),
        Entry(
            "djqueue",
            "**djqueue**, 4 threads",
            1,
            module="djqueue_project",
            sqlite=True,
            depth=True,
            queues=True,
            processes=True,
            payloads=True,
            coroutines=True,
            threads=True,
            project="djqueue_project.settings",
        ),
        Entry("pgqueuer", "pgqueuer", 1, depth=True, queues=True, settings=({"batch": 100}, {"batch": 500})),
        Entry("procrastinate", "procrastinate, concurrency 100", 0.1, depth=True, queues=True),
        Entry("dj-queue", "dj-queue, 8 threads", 0.1, module="django_tasks_project", python="3.12", threads=True),
        Entry(
            "django-ox",
            "django-ox",
            0.1,
            module="django_tasks_project",
            python="3.12",
            settings=({"threads": 1}, {"threads": 4}),
        ),
        Entry("django-tasks-db", "django-tasks-db", 0.05, module="django_tasks_project", depth=True, sqlite=True),
        Entry("huey", "huey, Redis, 4 threads", 0.25, needs="redis", bulk=False),
        Entry("dramatiq", "dramatiq, Redis, 8 threads", 0.25, needs="redis", bulk=False),
        Entry("celery", "celery, Redis", 0.1, needs="redis", bulk=False),
    )
}
OWN = ["limit", "djqueue"]  # always measured
