"""Assemblers by name: those that come with kaosmem, and your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType

from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.assemblers import SECTION, Assembler, SessionAssembler
from kaosmem.evaluation.baselines import BM25SAssembler, OldestOutAssembler, RankBM25Assembler, RecencyAssembler
from kaosmem.names import shown
from kaosmem.retrieval import DenseRanker
from kaosmem.tokens import TokenCounter

BASELINES: MappingProxyType[str, Callable[..., Assembler]] = MappingProxyType(
    {
        "recency": RecencyAssembler,
        "rank-bm25": RankBM25Assembler,
        "oldest-out": OldestOutAssembler,
        "bm25s": BM25SAssembler,
    }
)
ASSEMBLERS = ("kaosmem", *BASELINES)
DENSE = "kaosmem-dense"
STANDARD = ("kaosmem", "recency", "rank-bm25")


def get_assembler(
    name: str,
    *,
    counter: TokenCounter | str | None = None,
    format: str = "text",  # noqa: A002
) -> Assembler:
    """Return the assembler of a name in ASSEMBLERS, kaosmem's with contexts in that format, or one's own.

    `kaosmem-dense` ranks by `DenseRanker`, for which the extra `dense` must be there, and embeds every item first.
    One's own is `module:attribute`, an assembler or a class or function that makes one of nothing.
    Raises InvalidArgumentError and MissingExtraError.
    """
    if name == "kaosmem":
        return SessionAssembler(format=format, counter=counter)
    if name == DENSE:
        return SessionAssembler(DENSE, spec=replace(SECTION, ranker=DenseRanker()), format=format, counter=counter)
    if name in BASELINES:
        return BASELINES[name](counter=counter)
    module_name, separator, attribute = name.partition(":")
    if not (separator and module_name and attribute):
        known = ", ".join(map(repr, (*ASSEMBLERS, DENSE)))
        raise InvalidArgumentError(f"no assembler {shown(name)}; choose of {known}, or name your own module:attribute")
    return _own(module_name, attribute)


def _own(module_name: str, attribute: str) -> Assembler:
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InvalidArgumentError(
            f"no module {shown(module_name)} to take an assembler from; run from the folder that it is in"
        ) from None
    found = getattr(module, attribute, None)
    made = found() if callable(found) else found
    if not isinstance(made, Assembler):
        raise InvalidArgumentError(
            f"{shown(attribute)} of {shown(module_name)} is no assembler; "
            "give an object with `name` and `load(items)`, or a function that makes one"
        )
    return made


def standard_assemblers(
    *,
    counter: TokenCounter | str | None = None,
    format: str = "text",  # noqa: A002
) -> tuple[Assembler, ...]:
    """Return the default assemblers: kaosmem, with its contexts in that format, recency and rank-bm25."""
    return tuple(get_assembler(name, counter=counter, format=format) for name in STANDARD)
