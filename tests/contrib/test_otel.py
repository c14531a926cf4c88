"""Traces: from a request through the enqueue to the task, with the SDK's in-memory exporter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import djqueue
from djqueue.worker.options import Options
from tests.tools import eventually
from tests.worker.process.test_worker import burst, running
from tests.worker.site import site

pytestmark = pytest.mark.databases("sqlite")  # no database changes what is tested here
HOOKS = {"HEADERS": ["djqueue.contrib.otel.headers"], "AROUND": ["djqueue.contrib.otel.around"]}
exporter = InMemorySpanExporter()
tracer = trace.get_tracer("tests")


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    """A process has one provider; it cannot be replaced."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(made)


@pytest.fixture(autouse=True)
def traced(configure, settings) -> Iterator[None]:
    configure(**HOOKS)
    settings.ROOT_URLCONF = __name__
    exporter.clear()
    yield
    exporter.clear()


@djqueue.task(name="traced")
def work(fail: str = "") -> None:
    with tracer.start_as_current_span("work"):
        raise_it(fail)


@djqueue.task(name="atraced")
async def awork(fail: str = "") -> None:
    await asyncio.sleep(0)
    with tracer.start_as_current_span("work"):
        raise_it(fail)


@djqueue.task(name="forever")
async def forever() -> None:
    with tracer.start_as_current_span("waiting"):
        await asyncio.sleep(60)


@djqueue.task(name="secretive", sensitive=["password"])
def log_in(password: str) -> None:
    raise ValueError(f"wrong password {password}")


def raise_it(fail: str) -> None:
    match fail:
        case "error":
            raise ValueError("boom")
        case "retry":
            raise djqueue.Retry(60)
        case "snooze":
            raise djqueue.Snooze(60)
        case "cancel":
            raise djqueue.Cancelled


def view(request: HttpRequest) -> HttpResponse:
    with tracer.start_as_current_span("request", kind=SpanKind.SERVER):
        return HttpResponse(str(work.enqueue().id))


async def aview(request: HttpRequest) -> HttpResponse:
    with tracer.start_as_current_span("request", kind=SpanKind.SERVER):
        return HttpResponse(str((await awork.aenqueue()).id))


urlpatterns = [path("buy", view), path("abuy", aview)]


def spans() -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def run(task: djqueue.Task, *args: object, **options: object) -> ReadableSpan:
    """Run a job once; return its span."""
    handle = task.using(max_attempts=1, **options).enqueue(*args)
    burst(threads=1)
    [span] = [span for span in exporter.get_finished_spans() if span.name == f"run {task.name}"]
    assert span.attributes["messaging.message.id"] == str(handle.id)
    return span


@pytest.mark.parametrize("kind", ["plain function", "coroutine"])
def test_one_trace_leads_from_the_request_through_the_enqueue_to_the_task(kind):
    if kind == "plain function":
        task, answer = work, Client().get("/buy")
    else:
        task, answer = awork, asyncio.run(AsyncClient().get("/abuy"))
    burst()
    found = spans()
    names = ["request", f"enqueue {task.name}", f"run {task.name}", "work"]
    assert sorted(found) == sorted(names)
    request, enqueue, attempt, inside = (found[name] for name in names)
    assert {span.context.trace_id for span in found.values()} == {request.context.trace_id}
    assert enqueue.parent.span_id == request.context.span_id
    assert attempt.parent.span_id == enqueue.context.span_id
    assert attempt.parent.is_remote
    assert inside.parent.span_id == attempt.context.span_id
    assert (enqueue.kind, attempt.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(enqueue.attributes) == {
        "messaging.system": "djqueue",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "djqueue.task": task.name,
    }
    assert dict(attempt.attributes) == {
        "messaging.system": "djqueue",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": answer.content.decode(),
        "djqueue.task": task.name,
        "djqueue.attempt": 1,
        "djqueue.max_attempts": 3,
    }
    assert attempt.status.status_code == StatusCode.UNSET
    header = f"00-{enqueue.context.trace_id:032x}-{enqueue.context.span_id:016x}-"
    assert djqueue.get_job(answer.content.decode()).headers["traceparent"].startswith(header)


def test_every_attempt_and_every_job_of_a_batch_has_a_span_of_its_own():
    with tracer.start_as_current_span("request"):
        work.using(retry=djqueue.Fixed(0), max_attempts=2).enqueue_many([djqueue.call("error"), djqueue.call()])
    burst()
    found = exporter.get_finished_spans()
    producers = [span for span in found if span.kind == SpanKind.PRODUCER]
    attempts = [span for span in found if span.kind == SpanKind.CONSUMER]
    assert (len(producers), len(attempts)) == (2, 3)
    assert len({span.context.trace_id for span in found}) == 1
    parents = sorted(span.parent.span_id for span in attempts)
    first, second = (span.context.span_id for span in producers)
    assert parents == sorted([first, first, second])
    assert sorted(span.attributes["djqueue.attempt"] for span in attempts) == [1, 1, 2]


@pytest.mark.parametrize("task", [work, awork])
def test_a_failure_is_recorded(task):
    span = run(task, "error")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "boom")
    assert span.attributes["error.type"] == "builtins.ValueError"
    [event] = span.events
    assert (event.name, event.attributes["exception.message"]) == ("exception", "boom")
    assert event.attributes["exception.type"] == "ValueError"
    assert "in raise_it" in event.attributes["exception.stacktrace"]


@pytest.mark.parametrize("task", [work, awork])
@pytest.mark.parametrize("control", ["retry", "snooze", "cancel"])
def test_an_exception_that_controls_the_job_is_no_error(task, control):
    span = run(task, control)
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())


@pytest.mark.parametrize("reason", ["cancelled", "timeout"])
def test_a_cancelled_coroutine_is_no_error_but_one_that_timed_out_is(reason):
    with running(Options(threads=1)):
        handle = forever.using(timeout=0.3 if reason == "timeout" else None, max_attempts=1).enqueue()
        if reason == "cancelled":
            eventually(lambda: handle.status() == "claimed" and handle.job().started_at)
            handle.cancel()
        assert handle.wait(60).completed
    status = spans()["run forever"].status.status_code
    assert status == (StatusCode.UNSET if reason == "cancelled" else StatusCode.ERROR)


def test_sensitive_arguments_are_masked():
    span = run(log_in, "hunter2")
    assert "hunter2" not in str((span.status.description, [dict(event.attributes) for event in span.events]))
    assert span.status.description == "wrong password ********"


@pytest.mark.parametrize("headers", [{"traceparent": "nonsense"}, {"traceparent": 5, "tracestate": []}])
def test_a_job_without_a_valid_context_starts_a_trace(headers):
    span = run(work, headers=headers)
    assert span.parent is None


def test_the_tracing_context_does_not_leak_to_the_next_job(configure):
    run(work)
    assert not trace.get_current_span().get_span_context().is_valid
    exporter.clear()
    configure(AROUND=HOOKS["AROUND"])  # without producer spans
    work.enqueue()
    work.enqueue()
    burst(threads=1)
    attempts = [span for span in exporter.get_finished_spans() if span.kind == SpanKind.CONSUMER]
    assert [span.parent for span in attempts] == [None, None]
    assert len({span.context.trace_id for span in attempts}) == 2


def test_a_worker_process_exports_its_spans_before_it_exits(database, tmp_path):
    """Otherwise those that wait for the next batch would be lost with every deployment."""
    handles = [work.enqueue(), awork.enqueue()]
    file = tmp_path / "spans"
    with site(database, tmp_path) as place:
        env = {"DJQUEUE_TEST_APP": "tests.contrib.traced", "DJQUEUE_TEST_SPANS": str(file)}
        worker = place.start("--burst", env=env, **HOOKS)
        assert worker.process.wait(60) == 0, worker.log()
    assert [handle.status() for handle in handles] == ["done", "done"]
    assert sorted(file.read_text().split("\n")) == ["", "run atraced", "run traced", "work", "work"]
