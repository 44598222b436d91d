"""Spans, metrics and log lines about the work of a session. None of them holds content.

Spans and metrics need a program that has set up OpenTelemetry; kaosmem does not import it. Names
follow its conventions for generative AI where these have one. Log lines go to the logger `kaosmem`,
at level DEBUG, and conflicts at INFO. docs/telemetry.md lists all names.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from kaosmem.errors import ConflictError

LOGGER = logging.getLogger("kaosmem")
_NAMES = {"session": "gen_ai.conversation.id", "source": "kaosmem.source.name"}
"""The attributes with the id of a session and the name of a source."""
_FOR_THE_QUERY = ("relevant", "recalled")
_HISTOGRAMS = {
    "kaosmem.operation.duration": ("s", "Duration of an operation."),
    "kaosmem.context.fill": ("1", "Used share of the budget."),
    "kaosmem.context.prefix_share": (
        "1",
        "Share that the previous request of the window begins.",
    ),
    "kaosmem.context.recall_share": ("1", "Share of the items that were chosen for the query."),
}
_COUNTERS = {
    "kaosmem.evictions": ("{item}", "Items that left for room."),
    "kaosmem.conflicts": ("{conflict}", "Saves that met a conflict."),
}
"""The metrics by name, each with its unit and its meaning."""

Figures = dict[str, float]


def count_evictions(section: str, items: int) -> None:
    """Count items that left a section for room."""
    if items:
        LOGGER.debug("evict: section %s, %d items", section, items)
        _measure("kaosmem.evictions", items, {"kaosmem.section.name": section})


@contextmanager
def observed(operation: str, **names: str) -> Iterator[list[Any]]:
    """Hold the span of an operation. Its duration and a log line are noted at the end of the block.

    Args:
        operation: The name of the operation.
        names: The session or the source that the operation is on.

    Yields:
        A list for the context that the operation makes.
    """
    contexts: list[Any] = []
    if "opentelemetry.trace" not in sys.modules and not LOGGER.isEnabledFor(logging.DEBUG):
        yield contexts
        return
    attributes = {"gen_ai.operation.name": operation}
    attributes |= {_NAMES[name]: value for name, value in names.items()}
    figures: Figures = {}
    started = time.perf_counter()
    with _span(operation, attributes) as span:
        try:
            yield contexts
            for context in contexts:
                figures.update(_figures(context))
        except BaseException as error:
            # The message of an error may name items.
            attributes["error.type"] = type(error).__name__
            if span is not None:
                span.set_attribute("error.type", attributes["error.type"])
                span.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)
            if isinstance(error, ConflictError):
                LOGGER.info("conflict: two writers changed the same items: %s", attributes)
                _measure("kaosmem.conflicts", 1, {})
            raise
        finally:
            seconds = time.perf_counter() - started
            if span is not None:
                span.set_attributes(figures)
            LOGGER.debug("%.1f ms: %s", 1_000 * seconds, attributes | figures)
            attributes.pop(_NAMES["session"], None)  # a metric for each session would be too many
            _measure("kaosmem.operation.duration", seconds, attributes)
            for name in _HISTOGRAMS.keys() & figures.keys():
                _measure(name, figures[name], attributes)


def _span(operation: str, attributes: Mapping[str, str]) -> AbstractContextManager[Any]:
    """Return the span of an operation, None inside of the block without OpenTelemetry."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return nullcontext()
    tracer = api.get_tracer_provider().get_tracer("kaosmem")
    span: AbstractContextManager[Any] = tracer.start_as_current_span(
        f"{operation} kaosmem",
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    )
    return span


def _figures(context: Any) -> Figures:
    """Return the figures of a context. Shares are of the budget or of the used tokens."""
    figures: Figures = {
        "kaosmem.context.budget": context.budget,
        "kaosmem.context.used": context.used,
        "kaosmem.context.items": len(context.items),
    }
    if context.budget:
        figures["kaosmem.context.fill"] = context.used / context.budget
    used = context.used
    if used:
        recalled = 0
        for item in context.items:
            decision = context.decision(item.id)
            if decision.reason in _FOR_THE_QUERY:
                recalled += decision.tokens
        figures["kaosmem.context.recall_share"] = recalled / used
        if context.window:
            figures["kaosmem.context.prefix_share"] = context.prefix_tokens / used
    return figures


def _measure(
    metric: str,
    value: float,
    attributes: Mapping[str, str],
) -> None:
    """Record a value of a metric, if the program has set up metrics."""
    api: Any = sys.modules.get("opentelemetry.metrics")
    provider = None if api is None else api.get_meter_provider()
    # The API's own provider would make each instrument once more when it gives way to a real one.
    if not type(provider).__module__.startswith(("builtins", "opentelemetry.metrics")):
        _recorders(provider)[metric](value, attributes)


@lru_cache(maxsize=4)
def _recorders(provider: Any) -> dict[str, Callable[..., None]]:
    """Return by metric the function that records a value of it."""
    meter = provider.get_meter("kaosmem")
    recorders = {}
    for name, described in _HISTOGRAMS.items():
        recorders[name] = meter.create_histogram(name, *described).record
    for name, described in _COUNTERS.items():
        recorders[name] = meter.create_counter(name, *described).add
    return recorders
