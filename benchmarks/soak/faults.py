"""The faults: which there are, when each came, and which processes it touched."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from django.conf import settings

from .databases import Database
from .workers import Program, worker_processes

SHORT_STOP = (1.0, 4.0)  # seconds; shorter than the lease
LONG_STOP = (2.0, 5.0)  # more than the lease
# How long after a fault its effect may still be seen: workers connect again after pauses of up to five seconds, and a
# client notices a lost connection when it next uses it.
DATABASE_EFFECT, PROCESS_EFFECT = 6.0, 2.0
PROCESS_FAULTS = 0.6  # the share of faults of processes


@dataclass
class Fault:
    """Something that was done to some processes; if `pids` is None, to the database."""

    kind: str
    begin: float
    end: float
    pids: frozenset[int] | None
    killed: bool = False

    def touches(self, begin: float, end: float, *pids: int) -> bool:
        """Return whether it can have had an effect on these processes between two moments."""
        if self.pids is not None and not self.pids.intersection(pids):
            return False
        effect = DATABASE_EFFECT if self.pids is None else PROCESS_EFFECT
        return self.begin <= end and begin <= self.end + effect


class Faults:
    def __init__(self, seed: int, database: Database, workers: list[Program], say: Callable[[str], None]) -> None:
        self.rng = random.Random(seed)
        self.workers = workers
        self.say = say
        self.past: list[Fault] = []
        self.stopped: list[threading.Timer] = []
        self.of_database = database.faults()
        self.of_processes = {
            "process killed": self.kill_process,
            "worker killed": self.kill_worker,
            "process stopped": self.stop_process,
            "worker stopped": self.stop_worker,
        }

    def strike(self) -> None:
        """Do one fault, chosen at random."""
        if not self.of_database or self.rng.random() < PROCESS_FAULTS:
            kind = self.rng.choice([*self.of_processes])
            self.of_processes[kind](kind)
            return
        kind = self.rng.choice([*self.of_database])
        begin = time.monotonic()
        details = self.of_database[kind](self.rng)
        self.note(Fault(kind, begin, time.monotonic(), None), details)

    def note(self, fault: Fault, details: str) -> None:
        self.past.append(fault)
        self.say(f"fault: {fault.kind}, {details}")

    def kill_process(self, kind: str) -> None:
        worker = self.rng.choice(self.workers)
        for pid in self.one_process(worker):
            begin = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.note(Fault(kind, begin, time.monotonic(), frozenset([pid]), killed=True), f"{worker.name}, {pid}")

    def kill_worker(self, kind: str) -> None:
        """Kill all processes of a worker, and start it again."""
        worker = self.rng.choice(self.workers)
        begin = time.monotonic()
        pids = frozenset(worker.kill())
        self.note(Fault(kind, begin, time.monotonic(), pids, killed=True), f"{worker.name}, {len(pids)} processes")
        worker.start()

    def stop_process(self, kind: str) -> None:
        worker = self.rng.choice(self.workers)
        for pid in self.one_process(worker):
            begin = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            end = begin + self.rng.uniform(*SHORT_STOP)
            self.go_on_later(Fault(kind, begin, end, frozenset([pid])), f"{worker.name}, {pid}")

    def stop_worker(self, kind: str) -> None:
        """Stop all processes of a worker for so long that others take its jobs, which it still runs afterwards."""
        worker = self.rng.choice(self.workers)
        begin = time.monotonic()
        end = begin + settings.DJQUEUE["LEASE"] + self.rng.uniform(*LONG_STOP)
        pids = frozenset(worker.signal_all(signal.SIGSTOP))
        self.go_on_later(Fault(kind, begin, end, pids), worker.name)

    def go_on_later(self, fault: Fault, details: str) -> None:
        seconds = fault.end - fault.begin

        def go_on() -> None:
            for pid in fault.pids or ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            fault.end = time.monotonic()

        timer = threading.Timer(seconds, go_on)
        timer.daemon = True
        timer.start()
        self.stopped.append(timer)
        self.note(fault, f"{details}, for {seconds:.1f} s")

    def one_process(self, worker: Program) -> list[int]:
        """Return a process that runs jobs; none if the worker has just been started."""
        found = worker_processes(worker)
        return [self.rng.choice(found)] if found else []

    def end(self) -> None:
        """Let all stopped processes go on."""
        for timer in self.stopped:
            if not timer.finished.is_set():
                timer.cancel()
                timer.function()
        self.stopped.clear()
