"""The options of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a worker works; docs/guides/worker.md describes each option."""

    queues: Mapping[str, int | None] = field(default_factory=dict)  # with their concurrency; empty for all
    exclude: Sequence[str] = ()
    processes: int = 1
    threads: int = 4
    burst: bool = False
    max_jobs: int | None = None
    max_memory: int | None = None  # bytes
    scheduler: bool = True
    maintenance: bool = True
    name: str = ""
    takes_only: bool = False  # only runs jobs that it gets by TakeJob, and claims none

    def consumes(self, queue: str) -> bool:
        return queue not in self.exclude and (not self.queues or queue in self.queues)
