"""A worker process from its fork to its exit, and its end of the pipe to the supervisor."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from djqueue.conf import config
from djqueue.core.identity import identity
from djqueue.core.log import logger
from djqueue.lifecycle.claim import ClaimedJob
from djqueue.worker.held_jobs import HeldJobs
from djqueue.worker.messages import QUARANTINE, Drain, Order, Quiet, Report, SendSignal, Suspect, TakeJob, UpdateJobs
from djqueue.worker.options import Options
from djqueue.worker.os_process import resident_memory, title
from djqueue.worker.plans import keep_plans
from djqueue.worker.threads import VitalThread

from .worker import Worker

REPORT_INTERVAL = 1.0
# New objects after which Python looks for cycles among them: those of a claim are not worth it.
USUAL_THRESHOLD, LARGER_THRESHOLD = 700, 10_000


def work(options: Options, memory: mmap.mmap, number: int, connection: Connection[Any, Any]) -> int:
    """Run jobs, listed in the shared memory under this number; return the exit code."""
    title(f"worker {options.name or number + 1}")
    if number == QUARANTINE:
        options = replace(options, threads=1, max_jobs=None, takes_only=True)
    gc.freeze()  # the project's modules stay as long as the process: they need not be looked through again and again
    if gc.get_threshold()[0] == USUAL_THRESHOLD:  # the project has not chosen another
        gc.set_threshold(LARGER_THRESHOLD, *gc.get_threshold()[1:])
    worker = Worker(options, HeldJobs(memory, number), replaceable=True, keep_plans=keep_plans, fatal=exit_process)

    def drain(number: int, frame: FrameType | None) -> None:
        # It interrupts the claimer, which may hold a lock: another thread does what takes locks.
        reason = signal.Signals(number).name
        threading.Thread(target=worker.drain, args=[reason, config().shutdown_grace], daemon=True).start()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent by the terminal to all processes: the supervisor handles it
    signal.signal(signal.SIGTERM, drain)
    os.register_at_fork(after_in_child=lambda: become_a_plain_process(connection))
    pipe = Pipe(connection, worker)
    if not pipe.start():
        return 1
    code = worker.run()
    pipe.report()  # what was done since the last report
    return code


def become_a_plain_process(connection: Connection[Any, Any]) -> None:
    """Restore default signal handlers and close the pipe in a process forked by a task."""
    connection.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_process(thread: str) -> None:
    """Exit after the loss of a thread without which the process cannot work; the supervisor replaces it."""
    os._exit(1)


class Pipe:
    """The worker's end of the pipe to its supervisor."""

    def __init__(self, connection: Connection[Any, Any], worker: Worker) -> None:
        self.connection = connection
        self.worker = worker
        self.lock = threading.Lock()
        self.thread = VitalThread(self._serve, "djqueue-link", exit_process)

    def start(self) -> bool:
        """Obey the first order, then all others in a thread. Return False if the supervisor has exited."""
        try:
            self._obey(self.connection.recv())  # before the first claim: the worker may be quiet
        except (EOFError, OSError):
            return False
        self.worker.report_now = self.report
        self.worker.claimer.hand_over = self.hand_over
        self.thread.start()
        return True

    def hand_over(self, job: ClaimedJob) -> None:
        """Give a job to the supervisor. Raise OSError if it has exited, in which case this process exits too."""
        with self.lock:
            self.connection.send(Suspect(job))

    def report(self) -> None:
        """Send the state of this process; `_serve` notices if the supervisor has exited."""
        report = Report(
            identity=identity(),
            pid=os.getpid(),
            finished=self.worker.in_hand.counts.finished,
            memory=resident_memory(),
            quiet=self.worker.quiet,
            draining=bool(self.worker.draining),
            signals_sent=self.worker.take_signals_sent(),
            taken=self.worker.taken,
            progress=self.worker.take_progress(),
            loops=self.worker.loops(),
        )
        with self.lock:
            try:
                self.connection.send(report)
            except OSError:
                pass  # the supervisor has exited: `_serve` notices that

    def _serve(self) -> None:
        try:
            due = time.monotonic()
            while True:
                if time.monotonic() >= due:
                    self.report()
                    due = time.monotonic() + REPORT_INTERVAL
                if self.connection.poll(max(0.0, due - time.monotonic())):
                    self._obey(self.connection.recv())
        except (EOFError, OSError):
            # Without a supervisor the leases are not renewed: running jobs may soon run elsewhere too.
            logger.error("supervisor exited, exiting immediately worker=%s", identity())
            os.kill(os.getpid(), signal.SIGKILL)

    def _obey(self, order: Order) -> None:
        match order:
            case Quiet(quiet):
                self.worker.be_quiet(quiet)
            case Drain(reason, within):
                self.worker.drain(reason, within)
            case UpdateJobs(cancelled, lost):
                self.worker.update(cancelled, lost)
            case SendSignal(relayed):
                self.worker.send_signal(relayed)
            case TakeJob(job):
                self.worker.take(job)
