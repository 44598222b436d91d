"""Spans, metrics and log lines about the work of a session. None of them holds content.

Spans and metrics need a program that has set up OpenTelemetry. Names follow its conventions for
generative AI where these have one. Log lines go to the logger `kaosmem`, at level DEBUG, and
conflicts at INFO. Where neither is on, an operation costs about a microsecond more.
docs/telemetry.md lists all names.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from kaosmem.errors import ConflictError

P = ParamSpec("P")
R = TypeVar("R")

LOGGER = logging.getLogger("kaosmem")
_FOR_THE_QUERY = ("relevant", "recalled")
_SESSION = "gen_ai.conversation.id"
_SOURCE = "kaosmem.source.name"
_API_PACKAGES = ("opentelemetry.trace", "opentelemetry.metrics")
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


def observed(
    operation: str,
    *,
    session: Callable[[Any], str] | None = None,
    source: Callable[[Any], str] | None = None,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Return a decorator that makes a span, a duration and a log line of each call.

    Args:
        operation: The name of the operation.
        session: Returns the id of the session, from the first argument of the call.
        source: Returns the name of the source, from the first argument of the call.
    """

    def decorate(
        method: Callable[P, Coroutine[Any, Any, R]],
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        @wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not _is_watched():
                return await method(*args, **kwargs)
            names = {}
            for name, find in ((_SESSION, session), (_SOURCE, source)):
                found = "" if find is None else find(args[0])
                if found:
                    names[name] = found
            with _measured(operation, names) as figures:
                result = await method(*args, **kwargs)
                if operation == "assemble_context":
                    figures.update(_figures(result))
            return result

        return call

    return decorate


def count_evictions(section: str, items: int) -> None:
    """Count items that left a section for room."""
    if items:
        LOGGER.debug("evict: section %s, %d items", section, items)
        _measure("kaosmem.evictions", items, {"kaosmem.section.name": section})


@contextmanager
def _measured(operation: str, names: Mapping[str, str]) -> Iterator[Figures]:
    """Hold the span of an operation. The caller adds the figures of the result."""
    attributes = {"gen_ai.operation.name": operation, **names}
    figures: Figures = {}
    started = time.perf_counter()
    with _span(operation, attributes) as span:
        try:
            yield figures
        except BaseException as error:
            # The message of an error may name items.
            attributes["error.type"] = type(error).__name__
            if span is not None:
                span.set_attribute("error.type", attributes["error.type"])
                span.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)
            if isinstance(error, ConflictError):
                session = names.get(_SESSION, "")
                LOGGER.info("conflict: session %s, two writers changed the same items", session)
                _measure("kaosmem.conflicts", 1, {})
            raise
        finally:
            seconds = time.perf_counter() - started
            if span is not None:
                span.set_attributes(figures)
            _log(operation, attributes, seconds, figures)
            attributes.pop(_SESSION, None)  # a metric for each session would be too many
            _measure("kaosmem.operation.duration", seconds, attributes)
            for name in _HISTOGRAMS.keys() & figures.keys():
                _measure(name, figures[name], attributes)


def _span(operation: str, attributes: Mapping[str, str]) -> AbstractContextManager[Any]:
    """Return the span of an operation, None inside of the block without a tracer."""
    provider = _provider("trace", "get_tracer_provider")
    if provider is None:
        return nullcontext()
    span: AbstractContextManager[Any] = provider.get_tracer("kaosmem").start_as_current_span(
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
    if context.used:
        recalled = 0
        for item in context.items:
            decision = context.decision(item.id)
            if decision.reason in _FOR_THE_QUERY:
                recalled += decision.tokens
        figures["kaosmem.context.recall_share"] = recalled / context.used
        if context.window:
            figures["kaosmem.context.prefix_share"] = context.prefix_tokens / context.used
    return figures


def _log(
    operation: str,
    attributes: Mapping[str, str],
    seconds: float,
    figures: Figures,
) -> None:
    parts = []
    if attributes.get(_SESSION):
        parts.append(f"session {attributes[_SESSION]}")
    if _SOURCE in attributes:
        parts.append(f"source {attributes[_SOURCE]}")
    parts.append(f"{1_000 * seconds:.1f} ms")
    if figures:
        used = figures["kaosmem.context.used"]
        budget = figures["kaosmem.context.budget"]
        parts.append(f"{used:,} of {budget:,} tokens")
    if "error.type" in attributes:
        parts.append(attributes["error.type"])
    LOGGER.debug("%s: %s", operation, ", ".join(parts))


def _measure(
    metric: str,
    value: float,
    attributes: Mapping[str, str],
) -> None:
    """Record a value of a metric, if the program has set up metrics."""
    provider = _provider("metrics", "get_meter_provider")
    if provider is not None:
        _recorders(provider)[metric](value, attributes)


def _is_watched() -> bool:
    if LOGGER.isEnabledFor(logging.DEBUG):
        return True
    return "opentelemetry.trace" in sys.modules and (
        _provider("trace", "get_tracer_provider") is not None
        or _provider("metrics", "get_meter_provider") is not None
    )


def _provider(module: str, getter: str) -> Any:
    """Return a provider that the program has set up, None for the API's own, which records nothing.

    A program that sets one up has imported the API. kaosmem does not import it.
    """
    api = sys.modules.get(f"opentelemetry.{module}")
    if api is None:
        return None
    provider = getattr(api, getter)()
    return None if type(provider).__module__.startswith(_API_PACKAGES) else provider


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
