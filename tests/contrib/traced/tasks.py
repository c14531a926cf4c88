"""Tasks for a worker process that exports its spans in batches, to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from tests.contrib import test_otel  # noqa: F401 - registers its tasks


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(os.environ["DJQUEUE_TEST_SPANS"], "a") as file:
            file.writelines(f"{span.name}\n" for span in spans)
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ToFile(), schedule_delay_millis=60_000))
trace.set_tracer_provider(provider)
