"""Assemblers to compare: sessions, and the usual ways to choose texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import name_hint, shown
from kaosmem.retrieval.rankers import RANKERS
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.tokens import get_counter
from kaosmem.tokens.counters import AnyCounter

if TYPE_CHECKING:
    from kaosmem.evaluation.evidence import EvidenceItem


SECTION = next(spec for spec in DEFAULT_SECTIONS if spec.name == "documents")


@dataclass(frozen=True, slots=True)
class Selection:
    """The context that an assembler made.

    Attributes:
        item_ids: In the order in which they are shown.
        used: Tokens, as the assembler counts them.
    """

    item_ids: tuple[str, ...]
    used: int


class Packer(Protocol):
    """Answers questions about the items that it was made of."""

    async def __call__(self, query: str, budget: int) -> Selection:
        """Return a context of at most `budget` tokens."""


@runtime_checkable
class Assembler(Protocol):
    """A way of filling a budget. Implement it to compare your own."""

    @property
    def name(self) -> str:
        """Return the assembler's name in reports."""

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Take in the items of a corpus, oldest first, whatever will be asked about them."""


@dataclass(frozen=True)
class SessionAssembler:
    """A session with all items in one section, assembled as a user of kaosmem would.

    Attributes:
        spec: Of that section; two specs, or rankers, are compared as two assemblers of different
            names.
    """

    name: str = "kaosmem"
    _: KW_ONLY
    spec: SectionSpec = SECTION
    format: str = "text"
    counter: AnyCounter = None

    def session(self, items: Sequence[EvidenceItem]) -> SessionMemory:
        """Return a session with the items in its one section; it is never on disk."""
        spec = replace(self.spec, persistence="none")
        memory = SessionMemory.test_mode(sections=(spec,), counter=self.counter)
        for item in items:
            metadata = {"source": item.session, "timestamp": item.timestamp}
            metadata = {name: value for name, value in metadata.items() if value}
            memory.add(
                spec.name,
                item.text,
                id=item.id,
                role=item.role,
                key=item.key or None,
                metadata=metadata,
            )
        return memory

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Add the items to a session and index them."""
        memory = self.session(items)
        memory.search("index", self.spec.name, limit=1)  # the index is built when it is first asked

        async def pack(query: str, budget: int) -> Selection:
            context = await memory.assemble_context(query, budget=budget, format=self.format)
            ids = tuple(item.id for item in context.items)
            return Selection(ids, context.used)

        return pack


_WORD = re.compile(r"\w+")

Order: TypeAlias = Callable[[str], Sequence[int]]
"""Returns the places of items for a query, the first to be taken first."""


class ItemLines:
    """Items as the baselines show them: each a line `role: text`, or the text alone.

    An item is charged the tokens of its line.
    """

    def __init__(self, items: Sequence[EvidenceItem], counter: AnyCounter = None) -> None:
        self._ids = [item.id for item in items]
        self._charges = [*map(get_counter(counter), map(_line, items))]
        self._lightest = min(self._charges, default=0)

    def take_fitting(
        self,
        places: Iterable[int],
        budget: int,
        *,
        skips: bool = True,
    ) -> Selection:
        """Return the items at these places, best first, each that fits the rest of the budget.

        Args:
            skips: Whether an item that does not fit is passed over. If not, it is the end.
        """
        chosen = []
        room = budget
        for place in places:
            if self._charges[place] <= room:
                chosen.append(place)
                room -= self._charges[place]
            elif not skips or room < self._lightest:
                break
        return Selection(tuple(self._ids[place] for place in sorted(chosen)), budget - room)


def _line(item: EvidenceItem) -> str:
    if item.role:
        return f"{item.role}: {item.text}\n"
    return f"{item.text}\n"


@dataclass(frozen=True)
class OrderAssembler:
    """Takes items in an order: each that fits the rest of the budget.

    Attributes:
        order: Takes the items of a corpus, oldest first, and returns the function that orders them
            for a query.
        skips: Whether an item that does not fit is passed over. If not, it is the end.

    >>> def shortest(items):
    ...     def order(query):
    ...         return sorted(range(len(items)), key=lambda place: len(items[place].text))
    ...     return order
    >>> assembler = OrderAssembler("shortest", shortest)
    """

    name: str
    order: Callable[[Sequence[EvidenceItem]], Order]
    _: KW_ONLY
    skips: bool = True
    counter: AnyCounter = None

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Count the items, and make what orders them. Raises MissingExtraError."""
        lines = ItemLines(items, self.counter)
        order = self.order(items)

        async def pack(query: str, budget: int) -> Selection:
            return lines.take_fitting(order(query), budget, skips=self.skips)

        return pack


def newest(items: Sequence[EvidenceItem]) -> Order:
    """Return the order of the newest items first, without retrieval."""
    places = range(len(items) - 1, -1, -1)
    return lambda query: places


def by_rank_bm25(items: Sequence[EvidenceItem]) -> Order:
    """Return the order of scores by `rank_bm25.BM25Okapi` over lower-case words."""
    from rank_bm25 import BM25Okapi

    terms = [_WORD.findall(item.text.lower()) for item in items]
    model = BM25Okapi(terms) if any(terms) else None  # it divides by the number of terms

    def order(query: str) -> list[int]:
        if model:
            scores = model.get_scores(_WORD.findall(query.lower()))
        else:
            scores = np.zeros(len(items))
        return best_first(scores)

    return order


def best_first(scores: NDArray[np.floating]) -> list[int]:
    """Return the places of scores in descending order, the newest first of equals."""
    places: list[int] = (len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")).tolist()
    return places


BASELINES: Mapping[str, OrderAssembler] = MappingProxyType(
    {
        "recency": OrderAssembler("recency", newest, skips=False),
        "rank-bm25": OrderAssembler("rank-bm25", by_rank_bm25),
    }
)
ASSEMBLERS = ("kaosmem", *BASELINES)
RANKER_ASSEMBLERS = MappingProxyType({f"kaosmem-{name}": make for name, make in RANKERS.items()})
"""The rankers by the names of the sessions that rank by them."""


def get_assembler(
    name: str,
    *,
    counter: AnyCounter = None,
    format: str = "text",
) -> Assembler:
    """Return an assembler by its name.

    Args:
        name: A name in ASSEMBLERS or RANKER_ASSEMBLERS. `kaosmem-dense` needs the extra `dense`,
            and embeds every item first.
        format: The format of the contexts of sessions.

    Raises:
        InvalidArgumentError: If there is no such assembler.
        MissingExtraError: If the extra is not installed.
    """
    if name == "kaosmem":
        return SessionAssembler(format=format, counter=counter)
    if name in RANKER_ASSEMBLERS:
        spec = replace(SECTION, ranker=RANKER_ASSEMBLERS[name]())
        return SessionAssembler(name, spec=spec, format=format, counter=counter)
    if name in BASELINES:
        return replace(BASELINES[name], counter=counter)
    raise InvalidArgumentError(
        f"no assembler {shown(name)}; {name_hint(name, [*ASSEMBLERS, *RANKER_ASSEMBLERS])}"
    )
