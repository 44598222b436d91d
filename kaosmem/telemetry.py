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
from typing import Any, NamedTuple, ParamSpec, TypeVar

from kaosmem.errors import ConflictError

P = ParamSpec("P")
R = TypeVar("R")

LOGGER = logging.getLogger("kaosmem")
_FOR_THE_QUERY = ("relevant", "recalled")
_SOURCE = "kaosmem.source.name"
_API_PACKAGES = ("opentelemetry.trace", "opentelemetry.metrics")

Figures = dict[str, float]


class _Instruments(NamedTuple):
    duration: Any
    shares: Mapping[str, Any]
    evictions: Any
    conflicts: Any


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
            named: dict[str, str] = {}
            if source is not None:
                named[_SOURCE] = source(args[0])
            session_id = "" if session is None else session(args[0])
            with _measured(operation, session_id, named) as figures:
                result = await method(*args, **kwargs)
                if operation == "assemble_context":
                    figures.update(_figures(result))
            return result

        return call

    return decorate


def count_evictions(section: str, items: int) -> None:
    """Count items that left a section for room."""
    if not items:
        return
    if LOGGER.isEnabledFor(logging.DEBUG):
        LOGGER.debug("evict: section %s, %d items", section, items)
    instruments = _metrics()
    if instruments is not None:
        instruments.evictions.add(items, {"kaosmem.section.name": section})


@contextmanager
def _measured(
    operation: str,
    session_id: str,
    named: Mapping[str, str],
) -> Iterator[Figures]:
    """Hold the span of an operation. The caller adds the figures of the result."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": operation, **named}
    figures: Figures = {}
    started = time.perf_counter()
    with _span(operation, session_id, attributes) as span:
        try:
            yield figures
        except BaseException as error:
            # The message of an error may name items.
            attributes["error.type"] = type(error).__name__
            if span is not None:
                span.set_attribute("error.type", attributes["error.type"])
                span.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)
            if isinstance(error, ConflictError):
                _count_conflict(session_id)
            raise
        finally:
            seconds = time.perf_counter() - started
            if span is not None:
                span.set_attributes(figures)
            _record(attributes, seconds, figures)
            _log(operation, session_id, attributes, seconds, figures)


def _span(
    operation: str,
    session_id: str,
    attributes: Mapping[str, Any],
) -> AbstractContextManager[Any]:
    """Return the span of an operation, None inside of the block without a tracer."""
    tracer = _tracer()
    if tracer is None:
        return nullcontext()
    place = {"gen_ai.conversation.id": session_id} if session_id else {}
    span: AbstractContextManager[Any] = tracer.start_as_current_span(
        f"{operation} kaosmem",
        attributes={**attributes, **place},
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


def _record(
    attributes: Mapping[str, Any],
    seconds: float,
    figures: Figures,
) -> None:
    instruments = _metrics()
    if instruments is None:
        return
    instruments.duration.record(seconds, attributes)
    for name, share in instruments.shares.items():
        if name in figures:
            share.record(figures[name], attributes)


def _count_conflict(session_id: str) -> None:
    LOGGER.info("conflict: session %s, two writers changed the same items", session_id)
    instruments = _metrics()
    if instruments is not None:
        instruments.conflicts.add(1)


def _log(
    operation: str,
    session_id: str,
    attributes: Mapping[str, Any],
    seconds: float,
    figures: Figures,
) -> None:
    parts = [f"session {session_id}"] if session_id else []
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


def _tracer() -> Any:
    provider = _provider("trace", "get_tracer_provider")
    return None if provider is None else provider.get_tracer("kaosmem")


def _metrics() -> _Instruments | None:
    provider = _provider("metrics", "get_meter_provider")
    return None if provider is None else _instruments(provider)


@lru_cache(maxsize=4)
def _instruments(provider: Any) -> _Instruments:
    meter = provider.get_meter("kaosmem")
    shares = {
        "kaosmem.context.fill": "Used share of the budget.",
        "kaosmem.context.prefix_share": "Share that the previous request of the window begins.",
        "kaosmem.context.recall_share": "Share of the items that were chosen for the query.",
    }
    return _Instruments(
        meter.create_histogram("kaosmem.operation.duration", "s", "Duration of an operation."),
        {name: meter.create_histogram(name, "1", text) for name, text in shares.items()},
        meter.create_counter("kaosmem.evictions", "{item}", "Items that left for room."),
        meter.create_counter("kaosmem.conflicts", "{conflict}", "Saves that met a conflict."),
    )
