"""Kill a node of a Galera cluster, on each of which there are a producer and a worker."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict

from benchmarks.soak import ledger
from benchmarks.soak.evidence import Evidence, Raised
from benchmarks.soak.workers import start_worker

from .course import Course
from .galera import NODES, Cluster, Node
from .outages import Outage, show, starts_of
from .producers import IN_TRANSACTION

BEFORE, AWAY, AFTER = 10.0, 15.0, 10.0  # seconds of load
KILLED = "node killed"
CONFLICT = "(1213,"


def is_own_conflict(what: str, text: str) -> bool:
    """Return whether a transaction of the producer itself was refused, which only the producer can repeat."""
    return what == IN_TRANSACTION and text.startswith(CONFLICT)


class MultiPrimary(Course):
    refused: list[Raised]

    def observe(self) -> dict[str, list[str]]:
        self.say(f"three MariaDB nodes with Galera, a worker and a producer on each, seed {self.options.seed}")
        self.cluster = Cluster(self.servers, self.stack)
        os.environ["DATABASE_URL"] = self.cluster.nodes[0].url
        self.set_up_django()
        for number, node in enumerate(self.cluster.nodes):
            self.workers.append(self.started(start_worker(number, node.url)))
        self.wait_until_ready(workers=NODES)
        self.remember_processes()
        for number, node in enumerate(self.cluster.nodes):
            self.start_producer(number, self.options.rate / NODES, node.url)
        self.begin = time.monotonic()
        killed = [self.cluster.nodes[-1 - number % (NODES - 1)] for number in range(self.options.kills)]
        for number, node in enumerate(killed):
            self.fault(node, f"kill {number + 1} of {self.options.kills}")
        self.load(AFTER)
        conflicts = {node.name: node.count_conflicts() for node in self.cluster.nodes}
        seen, found = self.finish()
        elsewhere = self.errors_elsewhere(killed)
        print(f"{'only clients of a killed node saw errors':<44}{len(elsewhere) or 'ok':>10}")
        for text in elsewhere:
            print(f"    {text}")
        found["only clients of a killed node saw errors"] = elsewhere
        self.summary(seen, found)
        print(f"{'conflicts between nodes':<44}{sum(conflicts.values()):>10,}")
        print(f"{'of these, in a transaction of the producer':<44}{len(self.refused):>10,}")
        self.show_nodes(seen, conflicts, killed)
        return self.judged(found)

    def fault(self, node: Node, title: str) -> None:
        """Kill a node, and let it join again after a while."""
        self.load(BEFORE)
        begin = time.monotonic()
        node.kill()
        self.cluster.wait_without(node, self.meanwhile)
        over = time.monotonic()
        self.say(f"{title}: {node.name}; the others are a cluster of two after {over - begin:.1f} s")
        self.load(AWAY)
        started = time.monotonic()
        self.cluster.rejoin(node, self.meanwhile)
        healthy = time.monotonic()
        self.say(f"{title}: {node.name} was started again, and is up to date after {healthy - started:.1f} s")
        self.outages.append(Outage(KILLED, begin, over, healthy))

    def accept(self, seen: Evidence) -> None:
        self.refused = [raised for raised in seen.raised if is_own_conflict(raised.what, raised.text)]
        seen.raised = [raised for raised in seen.raised if raised not in self.refused]

    def errors_elsewhere(self, killed: list[Node]) -> list[str]:
        """Return errors of producers whose node was not killed: a conflict must not reach them."""
        touched = {self.producers[self.cluster.nodes.index(node)].process.pid for node in killed}
        return [
            f"producer {entry.pid} at {entry.at:.3f}: {entry.values[2]}: {entry.values[3]}"
            for entry in ledger.read(self.folder, "producer")
            if entry.event == "raised"
            and entry.pid not in touched
            and not is_own_conflict(entry.values[0], entry.values[3])
        ]

    def show_nodes(self, seen: Evidence, conflicts: dict[str, int], killed: list[Node]) -> None:
        """Print what was done on each node, and how long the workers of the others and of a killed node were idle.

        Those of the others are taken together: a process that is busy takes most jobs, while the rest polls.
        """
        enqueued = Counter(entry.pid for entry in ledger.read(self.folder, "producer") if entry.event != "raised")
        starts = {node.name: starts_of(seen, self.members[number]) for number, node in enumerate(self.cluster.nodes)}
        print(f"\n{'node':<10}{'enqueued':>10}{'runs':>10}{'conflicts':>12}{'killed':>8}")
        for node, producer in zip(self.cluster.nodes, self.producers, strict=True):
            count, runs = enqueued[producer.process.pid], len(starts[node.name])
            print(f"{node.name:<10}{count:>10,}{runs:>10,}{conflicts[node.name]:>12,}{killed.count(node):>8}")
        rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for outage, node in zip(self.outages, killed, strict=True):
            others = sorted(at for name, moments in starts.items() if name != node.name for at in moments)
            noticed = outage.over - outage.begin
            rows["workers of other nodes"].append((noticed, outage.jobs_again(others)))
            rows["worker of the killed node"].append((noticed, outage.jobs_again(starts[node.name])))
        if rows:
            show("seconds after a kill", "cluster of two", rows)
