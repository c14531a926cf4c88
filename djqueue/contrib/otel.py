"""Traces with OpenTelemetry: a span for every enqueue, and a span for every attempt in the same trace. Extra: `otel`.

    DJQUEUE = {"HEADERS": ["djqueue.contrib.otel.headers"], "AROUND": ["djqueue.contrib.otel.around"]}

The context of the first span travels in the job's headers `traceparent` and `tracestate`.
"""

from __future__ import annotations

import asyncio
from contextvars import Token
from typing import Any

try:
    from opentelemetry import context, trace
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(f"{__name__} requires OpenTelemetry: pip install 'django-djqueue[otel]'.") from error

import djqueue
from djqueue.current import CurrentJob
from djqueue.exceptions import Cancelled, Retry, Snooze
from djqueue.lifecycle.failure import describe
from djqueue.lifecycle.settle import secrets_of
from djqueue.worker.os_process import at_exit

# W3C Trace Context, whatever the process is configured to use: the job may be run by a process of another release.
PROPAGATOR = TraceContextTextMapPropagator()


def headers(task_name: str) -> dict[str, str]:
    """Record a producer span and return the headers that carry its context. For DJQUEUE["HEADERS"]."""
    attributes = {**_operation("enqueue", "send"), "djqueue.task": task_name}
    carrier: dict[str, str] = {}
    span = _tracer().start_span(f"enqueue {task_name}", kind=SpanKind.PRODUCER, attributes=attributes)
    PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
    span.end()
    return carrier


class around:  # noqa: N801 - an entry of AROUND, used like a function
    """Record a consumer span around an attempt. For DJQUEUE["AROUND"].

    Both kinds of context manager, so that a coroutine needs no thread for it.
    """

    span: Span
    token: Token[context.Context]

    def __init__(self, job: CurrentJob) -> None:
        self.job = job

    def __enter__(self) -> None:
        job = self.job
        carrier = {name: value for name, value in job.headers.items() if isinstance(value, str)}
        parent = PROPAGATOR.extract(carrier)
        attributes = {
            **_operation("run", "process"),
            "messaging.destination.name": job.queue,
            "messaging.message.id": str(job.id),
            "djqueue.task": job.task,
            "djqueue.attempt": job.attempt,
            "djqueue.max_attempts": job.max_attempts,
        }
        self.span = _tracer().start_span(f"run {job.task}", parent, SpanKind.CONSUMER, attributes)
        self.token = context.attach(trace.set_span_in_context(self.span, parent))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        context.detach(self.token)
        if error is not None and not self._is_control(error):
            self._record(error)
        self.span.end()

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def _is_control(self, error: BaseException) -> bool:
        """Return whether the exception controls the job, and is no failure."""
        cancelled = isinstance(error, asyncio.CancelledError) and self.job.cancel_requested
        return cancelled or isinstance(error, Cancelled | Retry | Snooze)

    def _record(self, error: BaseException) -> None:
        """Record an exception as it is stored with the job: sensitive arguments are masked."""
        failure = describe(error, secrets_of(self.job._held.job))
        attributes = {"exception.message": failure.message, "exception.stacktrace": failure.traceback}
        self.span.record_exception(error, attributes)
        self.span.set_attribute("error.type", failure.exception)
        self.span.set_status(Status(StatusCode.ERROR, failure.message))


def _operation(name: str, kind: str) -> dict[str, Any]:
    """Return attributes by the semantic conventions for messaging."""
    return {"messaging.system": "djqueue", "messaging.operation.name": name, "messaging.operation.type": kind}


def _tracer() -> trace.Tracer:
    return trace.get_tracer("djqueue", djqueue.__version__)


def _flush() -> None:
    """Export the spans that wait in the process."""
    if hasattr(provider := trace.get_tracer_provider(), "force_flush"):  # one of the SDK
        provider.force_flush()


at_exit.append(_flush)
