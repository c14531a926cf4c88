"""The log filter that adds the current job."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import logging.config
import threading
from logging.handlers import QueueHandler
from queue import SimpleQueue

import pytest

import djqueue
from tests.worker.process.test_worker import burst

pytestmark = pytest.mark.databases("sqlite")  # no database changes what is tested here
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "djqueue.logging.JobFilter"}},
    "formatters": {"job": {"format": "%(job_id)s|%(task)s|%(queue)s|%(attempt)s|%(message)s"}},
    "handlers": {"list": {"()": "tests.test_logging.Lines", "filters": ["job"], "formatter": "job"}},
    "loggers": {"shop": {"handlers": ["list"], "level": "INFO", "propagate": False}},
}
lines: list[str] = []
logger = logging.getLogger("shop")


class Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        lines.append(self.format(record))


@pytest.fixture(autouse=True)
def configured():
    logging.config.dictConfig(LOGGING)
    lines.clear()
    yield
    logger.handlers.clear()
    logger.propagate = True


@djqueue.task(name="logs", retry=djqueue.Fixed(0))
def log() -> None:
    logger.info("plain")
    thread = threading.Thread(target=contextvars.copy_context().run, args=[logger.info, "thread"])
    thread.start()
    thread.join()
    if djqueue.current_job().attempt == 1:
        raise ValueError


@djqueue.task(name="alogs")
async def alog() -> None:
    async def helper() -> None:
        logger.info("asyncio task")

    await asyncio.gather(helper(), asyncio.to_thread(logger.info, "to_thread"))


def test_records_made_inside_a_task_name_its_job(database):
    logger.info("before")
    one = log.using(queue="q").enqueue()
    burst()
    other = alog.enqueue()
    burst()
    logger.info("after")
    assert lines[:-3] == [
        "||||before",
        f"{one.id}|logs|q|1|plain",
        f"{one.id}|logs|q|1|thread",
        f"{one.id}|logs|q|2|plain",
        f"{one.id}|logs|q|2|thread",
    ]
    assert set(lines[-3:-1]) == {f"{other.id}|alogs|default|1|asyncio task", f"{other.id}|alogs|default|1|to_thread"}
    assert lines[-1] == "||||after"


def test_values_of_the_record_itself_are_kept():
    logger.info("mine", extra={"queue": "bakery"})
    assert lines == ["||bakery||mine"]


def test_a_record_handled_in_another_thread_keeps_the_job_of_its_own(database):
    """With a QueueHandler, the filter is set on both sides."""
    waiting: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler = QueueHandler(waiting)
    writer = next(one for one in logger.handlers if isinstance(one, Lines))
    handler.addFilter(writer.filters[0])
    logger.handlers[:] = [handler]
    handle = log.using(max_attempts=1).enqueue()
    burst()
    writer.handle(waiting.get())
    assert lines == [f"{handle.id}|logs|default|1|plain"]
