"""Kill the primary of a Patroni cluster again and again, and switch over."""

from __future__ import annotations

import os
import time
from collections import defaultdict

from django.db import connection

from benchmarks.soak.faults import DATABASE_EFFECT
from benchmarks.soak.workers import start_worker

from .course import LOST, Course
from .outages import Outage, show, starts_of
from .patroni import Cluster

PRODUCERS = 2
# Seconds of load before each fault: some of them are so long after the last one that it explains nothing.
BETWEEN = DATABASE_EFFECT + 6.0
SERVER, MACHINE, FROZEN, SWITCHOVER = "server killed", "machine killed", "machine frozen", "switchover"


class Failover(Course):
    def observe(self) -> dict[str, list[str]]:
        self.may_lose = self.options.asynchronous
        kind = "asynchronous" if self.may_lose else "synchronous"
        self.say(f"three PostgreSQL nodes under Patroni, {kind} replication, seed {self.options.seed}")
        self.cluster = Cluster(self.servers, self.stack, not self.may_lose)
        os.environ["DATABASE_URL"] = self.cluster.url
        self.set_up_django()
        self.workers.append(self.started(start_worker(0, "")))
        self.wait_until_ready(workers=1)
        self.remember_processes()
        for number in range(PRODUCERS):
            self.start_producer(number, self.options.rate / PRODUCERS)
        self.begin = time.monotonic()
        for number in range(self.options.kills):
            self.fault(MACHINE if number % 2 else SERVER, f"kill {number + 1} of {self.options.kills}")
        for number in range(self.options.freezes):
            self.fault(FROZEN, f"freeze {number + 1} of {self.options.freezes}")
        for number in range(self.options.switchovers):
            self.fault(SWITCHOVER, f"switchover {number + 1} of {self.options.switchovers}")
        self.load(BETWEEN)
        seen, found = self.finish()
        self.summary(seen, found)
        starts = starts_of(seen)
        rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for outage in self.outages:
            rows[outage.kind].append((outage.over - outage.begin, outage.jobs_again(starts)))
        if rows:
            show("seconds after the fault", "new primary", rows)
        if self.may_lose:
            print(f"\nasynchronous replication may lose what was acknowledged, and lost {len(found[LOST[0]])} jobs")
        return self.judged(found)

    def fault(self, kind: str, title: str) -> None:
        """Do one fault, and wait until all nodes are back."""
        self.load(BETWEEN)
        if kind == SWITCHOVER:
            details, begin, over = self.cluster.switch_over(self.meanwhile)
        elif kind == FROZEN:
            connection.close()  # a query of this process must not wait for a server that it has stopped
            details, begin, over = self.cluster.freeze_primary(self.check_all)
        else:
            details, begin, over = self.cluster.kill_primary(kind == MACHINE, self.meanwhile)
        self.say(f"{title} ({kind}): {details}")
        self.cluster.wait_until_healthy(self.meanwhile)
        healthy = time.monotonic()
        self.say(f"{title}: all nodes replicate again after {healthy - begin:.1f} s")
        self.outages.append(Outage(kind, begin, over, healthy))
