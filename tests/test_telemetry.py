"""Spans, metrics and log lines on a session's work: complete, and without content."""

import logging

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kaosmem import ConflictError, NotFoundError, SectionSpec, SessionMemory
from kaosmem.sources import FactSource
from kaosmem.stores import InMemoryLongTermMemory

SECRET = "zanzibar"


class Watched:
    """What a program exports."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.metering = MeterProvider([self.reader])

    def spans(self, operation):
        """Return the attributes of the spans of an operation."""
        return [
            dict(span.attributes or {})
            for span in self.exporter.get_finished_spans()
            if span.name == f"{operation} kaosmem"
        ]

    def points(self, name):
        """Return the points of a metric."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if metric.name == name
        ]

    def everything(self):
        data = self.reader.get_metrics_data()
        spans = [span.to_json() for span in self.exporter.get_finished_spans()]
        return data.to_json() + "".join(spans)


@pytest.fixture
def watched(monkeypatch):
    """OpenTelemetry as a program sets it up. The API takes a provider once in a process."""
    watched = Watched()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: watched.tracing)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: watched.metering)
    yield watched
    watched.tracing.shutdown()
    watched.metering.shutdown()


async def test_a_turn_is_measured_without_content(watched, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "kaosmem")
    facts = InMemoryLongTermMemory()
    await facts.save("agent", f"The {SECRET} report is due.")
    async with SessionMemory.open(tmp_path, "deal-42", counter="estimate") as memory:
        await memory.attach(FactSource(facts, "agent"), name="facts")
        memory.add("messages", f"When is the {SECRET} report due?", id=f"{SECRET}-1")
        memory.add("findings", f"{SECRET} is an island.", key=SECRET)
        first = await memory.assemble_context(budget=300, window="main")
        memory.add("messages", f"I do not know of {SECRET}.", role="assistant")
        memory.add("messages", "And tomorrow?")
        second = await memory.assemble_context(budget=300, window="main")
        with pytest.raises(NotFoundError, match=SECRET):
            await memory.assemble_context(f"{SECRET}?", budget=100, sections=[SECRET])
    begun, continued, failed = watched.spans("assemble_context")
    assert begun["gen_ai.conversation.id"] == "deal-42"
    assert begun["kaosmem.context.used"] == first.used
    assert begun["kaosmem.context.fill"] == first.used / 300
    assert begun["kaosmem.context.prefix_share"] == 0
    assert continued["kaosmem.context.prefix_share"] == second.prefix_tokens / second.used
    assert failed["error.type"] == "NotFoundError"
    assert len(watched.spans("open_session")) == len(watched.spans("save_session")) == 1
    assert {span["kaosmem.source.name"] for span in watched.spans("ask_source")} == {"facts"}
    counts = {
        (point.attributes["gen_ai.operation.name"], point.attributes.get("error.type")): point.count
        for point in watched.points("kaosmem.operation.duration")
    }
    assert counts["assemble_context", None] == 2
    assert counts["assemble_context", "NotFoundError"] == 1
    assert counts["save_session", None] == 1
    for share in ("fill", "recall_share", "prefix_share"):
        (point,) = watched.points(f"kaosmem.context.{share}")
        assert 0 <= point.min <= point.max <= 1
    assert "'assemble_context', 'gen_ai.conversation.id': 'deal-42'" in caplog.text
    assert SECRET not in watched.everything() + caplog.text


async def test_evictions_and_conflicts_are_counted(watched, tmp_path):
    """A fact that a newer version replaces leaves for no room."""
    sections = (SectionSpec("notes", budget=30, eviction="fifo"), SectionSpec("facts"))
    async with SessionMemory.open(tmp_path, "a", sections=sections) as memory:
        for number in range(3):
            memory.add("facts", f"The rent is {number} euros.", key="rent")
        for number in range(10):
            memory.add("notes", f"Note number {number} is on the table.")
        archived = 10 - len(memory["notes"])
        await memory.save()
        async with SessionMemory.open(tmp_path, "a", sections=sections) as other:
            item = next(iter(other["notes"]))
            other.update(item.id, "One writer.")
        memory.update(item.id, "Another writer.")
        with pytest.raises(ConflictError):
            await memory.save()
    (evicted,) = watched.points("kaosmem.evictions")
    assert evicted.value == archived > 0
    assert evicted.attributes == {"kaosmem.section.name": "notes"}
    (conflicts,) = watched.points("kaosmem.conflicts")
    assert conflicts.value >= 1
