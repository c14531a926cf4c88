"""Tasks for workers under test; their results and kv show what they did."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

from asgiref.sync import sync_to_async
from django.db import connections, transaction

import djqueue
from djqueue import kv
from djqueue.conf import config
from djqueue.models import Job
from tests.app.models import Place

if "DJQUEUE_TEST_HANG" in os.environ:
    try:
        os.close(os.open(os.environ["DJQUEUE_TEST_HANG"], os.O_CREAT | os.O_EXCL))
        time.sleep(600)  # the first to import this hangs
    except FileExistsError:
        pass


@djqueue.task
def double(n: int) -> int:
    return 2 * n


@djqueue.task
async def adouble(n: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * n


@djqueue.task
async def acount(key: str) -> int:
    """Uses the ORM's thread from a coroutine."""
    return await sync_to_async(lambda: kv.get(key, 0))()


@djqueue.task(retry=djqueue.Fixed(0))
def fail_until(attempt: int) -> str:
    if djqueue.current_job().attempt < attempt:
        raise ValueError(f"not yet {djqueue.current_job().attempt}")
    return "at last"


@djqueue.task
def break_a_statement() -> None:
    with connections[config().database].cursor() as cursor:
        cursor.execute("INSERT INTO djqueue_kv (no_such_column) VALUES (1)")


@djqueue.task(retry=djqueue.Fixed(0))
def raise_it(name: str) -> None:
    match name:
        case "permanent":
            raise djqueue.PermanentFailure("never")
        case "retry":
            raise djqueue.Retry(delay=3600)
        case "snooze":
            raise djqueue.Snooze(3600)
        case "cancelled":
            raise djqueue.Cancelled
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "snooze into the past":
            raise djqueue.Snooze(-1)
        case "retry nonsense":
            raise djqueue.Retry(delay="60")


@djqueue.task(retry=djqueue.Fixed(0))
def refuse(argument: str) -> None:
    raise LookupError("not there")


@djqueue.task(retry=djqueue.Fixed(0))
async def arefuse(argument: str) -> None:
    raise LookupError("not there")


@djqueue.task
def return_unstorable(key: str) -> object:
    kv.set(key, kv.get(key, 0) + 1)
    return {42}


@djqueue.task
async def areturn_unstorable(key: str) -> object:
    await kv.aset(key, await kv.aget(key, 0) + 1)
    return {42}


@djqueue.task
def visit(place: Place, more: dict, at: Place | None = None) -> list:
    return [place, place.name, at and at.name, type(more["price"]).__name__]


@djqueue.task
async def avisit(place: Place, more: dict, at: Place | None = None) -> list:
    return [place, place.name, at and at.name, type(more["price"]).__name__]


@djqueue.task
def look_at_itself() -> list[object]:
    job = djqueue.current_job()
    return [str(job.id), job.task, job.queue, job.attempt, job.max_attempts, job.headers, job.cancel_requested]


@djqueue.task
def work_in_steps(steps: int, pause: float) -> str:
    job = djqueue.current_job()
    for step in range(steps):
        job.progress(step, steps, "working")
        job.raise_if_cancelled()
        time.sleep(pause)
    return "ran to its end"


@djqueue.task(retry=djqueue.Fixed(0))
def work_until_lost() -> str:
    """The first attempt ends when it is notified that its lease is lost."""
    job = djqueue.current_job()
    if job.attempt > 1:
        return "second attempt"
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        try:
            job.raise_if_cancelled()
        except djqueue.LeaseLost:
            kv.set("notified", True)
            raise
        time.sleep(0.01)
    return "never notified"


@djqueue.task(retry=djqueue.Fixed(0))
def sleep_at_first(seconds: float) -> int:
    """A long first attempt, and a short second one."""
    if djqueue.current_job().attempt == 1:
        time.sleep(seconds)
    return djqueue.current_job().attempt


@djqueue.task
async def anap(seconds: float) -> None:
    """Sleep without a connection."""
    await asyncio.sleep(seconds)


@djqueue.task
async def asleep(seconds: float) -> str:
    kv_set = sync_to_async(kv.set)
    await kv_set("asleep", True)
    await asyncio.sleep(seconds)
    return "slept"


@djqueue.task
def spin() -> None:
    while True:
        pass


@djqueue.task
def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@djqueue.task
def wait_with_a_connection(key: str) -> None:
    """Return when the KV entry is set."""
    while not kv.get(key):
        time.sleep(0.1)


@djqueue.task
async def await_with_a_connection(key: str) -> None:
    while not await kv.aget(key):
        await asyncio.sleep(0.1)


@djqueue.task
def leave_a_transaction_open() -> None:
    transaction.atomic(using=config().database).__enter__()
    kv.set("left", "open")


@djqueue.task
def leave_a_transaction_open_beside_another_connection() -> None:
    """As code does that writes to a log, say, whatever becomes of the transaction."""
    leave_a_transaction_open()
    other = connections.create_connection(config().database)
    other.ensure_connection()
    other.close()


@djqueue.task
def leave_autocommit_off() -> None:
    connections[config().database].set_autocommit(False)
    kv.set("left", "open")


@djqueue.task
def see_transaction() -> list[object]:
    """Where it runs, and whether a transaction was open before it did anything."""
    connection = connections[config().database]
    connection.ensure_connection()
    return [threading.get_ident(), connection.in_atomic_block, connection.get_autocommit()]


@djqueue.task
def close_the_connection() -> None:
    connections[config().database].close()


@djqueue.task
def overlap(key: str, seconds: float) -> int:
    """How many of these ran at once, by its own count."""
    while not kv.compare_and_set(key, now := kv.get(key), (now or 0) + 1):
        pass
    time.sleep(seconds)
    while not kv.compare_and_set(key, now := kv.get(key), now - 1):
        pass
    return now


@djqueue.task(retry=djqueue.Fixed(0))
def once_then(what: str) -> str:
    """Do harm in the first attempt."""
    if djqueue.current_job().attempt == 1:
        do_harm(what)
    return "survived"


def remember(job, attempts: int) -> None:
    kv.set(f"dead/{job.id}", attempts)


@djqueue.task(retry=djqueue.Fixed(0), on_dead=remember)
def always(what: str) -> None:
    do_harm(what)


def do_harm(what: str) -> None:
    match what:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(3)


@djqueue.task
def hold_the_interpreter(seconds: int) -> str:
    ctypes.PyDLL(None).sleep(seconds)
    return "let go"


@djqueue.task
def spin_for(seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass
    return "spun"


@djqueue.task
def process_id() -> int:
    return os.getpid()


meetings: dict[int, threading.Barrier] = {}


@djqueue.task(max_attempts=1)
def meet(size: int) -> int:
    """Return when so many jobs run in this process at once, each in a thread of its own."""
    meetings.setdefault(size, threading.Barrier(size)).wait(timeout=60)
    return os.getpid()


@djqueue.task
def hold_memory(megabytes: int) -> int:
    hoard.append(bytearray(megabytes * 1024 * 1024))
    return os.getpid()


hoard: list[bytearray] = []


@djqueue.task
async def ameet(key: str, size: int) -> None:
    """Return when so many of these run at once, counted through the ORM."""
    await sync_to_async(add)(key, 1)
    while await kv.aget(key) < size:
        await asyncio.sleep(0.1)


def add(key: str, number: int) -> int:
    while not kv.compare_and_set(key, now := kv.get(key), (now or 0) + number):
        pass
    return (now or 0) + number


@djqueue.task
def progress_in_a_transaction(begun: str, end: str) -> str:
    """Lock the row of this very job, create a file, and report progress until there is another."""
    job = djqueue.current_job()
    with transaction.atomic(using=config().database):
        Job.objects.using(config().database).select_for_update().get(pk=job.id)
        open(begun, "x").close()
        while not os.path.exists(end):
            job.progress(1, 2)
            time.sleep(0.05)
    return "committed"


@djqueue.task
def be_hostile(how: str) -> str:
    match how:
        case "directory":
            os.chdir("/")
        case "binary":
            os.write(1, b"\xff\xfe\x00\n")
        case "threads":
            for _ in range(20):
                threading.Thread(target=time.sleep, args=[30]).start()
        case "exit":
            sys.exit(1)
        case "signals":
            import faulthandler

            faulthandler.enable()
        case "transaction":
            leave_a_transaction_open()
        case "connection":
            close_the_connection()
    return how


@djqueue.task
def count_rows() -> None:
    kv.get("nothing")


@djqueue.task
def snooze_once() -> str:
    job = djqueue.current_job()
    if kv.compare_and_set(f"snoozed/{job.id}", None, True):
        raise djqueue.Snooze(0.5)
    return "woke"


@djqueue.task
async def exit_in_a_task_of_its_own() -> str:
    async def leave() -> None:
        sys.exit(1)

    leaving = asyncio.create_task(leave())
    await asyncio.sleep(0.2)
    return "stayed" if leaving.done() and isinstance(leaving.exception(), SystemExit) else "too early"


@djqueue.task
def fork_and_terminate() -> int | None:
    """A process forked by the task, which exits on SIGTERM."""
    started, report = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: (report.send(True), time.sleep(30)))
    process.start()
    started.recv()
    process.terminate()
    process.join(10)
    return process.exitcode


@djqueue.task
def where() -> str:
    return os.getcwd()


@djqueue.task
def fail_once(order_id: int) -> str:
    """The card company answers at the second try."""
    if kv.compare_and_set(f"charged/{order_id}", None, True):
        raise ConnectionError(f"the card company does not answer for order {order_id}")
    return f"paid order {order_id}"


@djqueue.task
def note_run(path: str, seconds: float) -> None:
    """Write a line for every run, which no fault of the queue can hide."""
    with open(path, "a") as file:
        file.write(f"{djqueue.current_job().id}\n")
    time.sleep(seconds)


@djqueue.task(retry=djqueue.Fixed(0.1))
def end_its_process(how: str) -> None:
    match how:
        case "exit 0":
            os._exit(0)
        case "kill the fork server":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(30)


@djqueue.task
def end_a_thread(name: str) -> str:
    """Raise SystemExit inside a thread of the worker's own, in the first attempt."""
    if djqueue.current_job().attempt == 1:
        [thread] = [thread for thread in threading.enumerate() if thread.name == name]
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        time.sleep(30)
    return "survived"


@djqueue.task
async def refuse_to_be_cancelled() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        asyncio.current_task().uncancel()
    return "went on"


@djqueue.task
def only_wait_for_cancel() -> bool:
    """Without a connection: a timeout that interrupts connecting leaves an open connection to the garbage collector."""
    return djqueue.current_job().wait_for_cancel()


class Closing:
    """A connection whose closing waits, after the code of the task has ended."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def hold_up(self, method: str) -> None:
        connection = connections[config().database]
        connection.ensure_connection()

        def wait() -> None:
            delattr(connection, method)
            self.begun.set()
            self.go_on.wait(60)
            getattr(connection, method)()

        setattr(connection, method, wait)


closing = Closing()


@djqueue.task(max_attempts=1)
async def aclose_late() -> str:
    await sync_to_async(closing.hold_up)("close")
    return "succeeded"


@djqueue.task(max_attempts=1)
def close_late() -> str:
    closing.hold_up("close_if_unusable_or_obsolete")
    return "succeeded"


@djqueue.task
def wait_for_cancel(timeout: float | None) -> bool:
    kv.set("waiting", True)
    return djqueue.current_job().wait_for_cancel(timeout)


@djqueue.task
async def await_for_cancel(timeout: float | None) -> bool:
    await sync_to_async(kv.set)("waiting", True)
    return await djqueue.current_job().await_for_cancel(timeout)


@djqueue.task
def report_progress(length: int) -> None:
    djqueue.current_job().progress(1, 2, "ä" * length)


@djqueue.task
def fork_and_return(how: str) -> int:
    """Both processes come back to the worker's code."""
    if os.fork() == 0 and how == "raise":
        raise ValueError("in the forked process")
    return os.getpid()


@djqueue.task
async def afork_and_return(how: str) -> int:
    os.fork()
    return os.getpid()


@djqueue.task
async def block_the_loop() -> None:
    await sync_to_async(kv.set)("blocking", True)
    gate.wait(GATE_TIMEOUT)


gate = threading.Event()  # of this process
GATE_TIMEOUT = 120.0


@djqueue.task
def hold() -> bool:
    """Run, without a connection, until the test opens the gate."""
    return gate.wait(GATE_TIMEOUT)


@djqueue.task
async def ahold() -> None:
    deadline = time.monotonic() + GATE_TIMEOUT
    while not gate.is_set() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)


@djqueue.task
def wait_for(key: str) -> str:
    """Run until the test sets the key."""
    deadline = time.monotonic() + 600
    while not kv.get(key) and time.monotonic() < deadline:
        time.sleep(0.02)
    return key


@djqueue.task(limit=djqueue.Limit("noted:{key}", concurrency=2))
def noted(key: int) -> None:
    """Note the start and the end of each run in a file, each by one write, by the clock that all processes share."""
    run = f"{djqueue.current_job().id}/{time.monotonic_ns()}"
    with open(os.environ["DJQUEUE_TEST_LEDGER"], "ab", buffering=0) as ledger:
        ledger.write(f"start {run} {key} {os.getpid()} {time.monotonic()}\n".encode())
        time.sleep(random.uniform(0, 0.1))
        ledger.write(f"end {run} {key} {os.getpid()} {time.monotonic()}\n".encode())


@djqueue.task(limit=djqueue.Limit("limited", concurrency=1))
def double_limited(n: int) -> int:
    return 2 * n


@djqueue.task(limit=djqueue.Limit("limited", concurrency=1))
def wait_limited(key: str) -> None:
    while not kv.get(key):
        time.sleep(0.1)


@djqueue.task(limit=djqueue.Limit("throttled:{name}", concurrency=1))
def throttled_once(name: str) -> str:
    """Be refused by a service, once."""
    if kv.compare_and_set(f"throttled:{name}", None, True):
        raise djqueue.Throttled(1)
    return "done"


@djqueue.task(limit=djqueue.Limit("by default:{n}", concurrency=1))
def noted_by_default(n: int = 3) -> None: ...


@djqueue.task
def wait_for_file(path: str) -> str:
    """Run, without a connection, until the test creates the file; return the attempt and the process."""
    while not os.path.exists(path):
        time.sleep(0.02)
    return f"{djqueue.current_job().attempt} {os.getpid()}"


@djqueue.task
def overlap_after_a_crash(key: str, path: str) -> int:
    """Wait to be killed. In the second attempt, return how many of these ran at once when there was the file."""
    attempt = djqueue.current_job().attempt
    add(f"{key}/{attempt}", 1)
    if attempt == 1:
        time.sleep(600)
    while not os.path.exists(path):
        time.sleep(0.02)
    time.sleep(0.5)  # for others that would run beside it
    return add(f"{key}/{attempt}", -1) + 1


@djqueue.task(retry=djqueue.Fixed(0))
def hold_the_interpreter_at_first(seconds: int) -> int:
    """A long first attempt, and a short second one."""
    if djqueue.current_job().attempt == 1:
        ctypes.PyDLL(None).sleep(seconds)
    return djqueue.current_job().attempt


@djqueue.task
def report_and_wait_for(key: str) -> None:
    """Be at a quarter until the test sets the key."""
    djqueue.current_job().progress(1, 4, "working")
    while not kv.get(key):
        time.sleep(0.1)
