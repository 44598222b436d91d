"""Pack the candidates of all sections into a token budget: pure, exact, explained.

want   each source has proposed units, best first
grant  `allocate` shares the window out
fit    whole units, until nothing more fits
build  static sections, histories, then the block that depends on the query
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from kaosmem.assembly.allocation import FRAME, Costs, scaled_floors, window_too_small
from kaosmem.assembly.confidence import confidence_of
from kaosmem.assembly.context import Context, Decision, SourceReport
from kaosmem.assembly.decisions import decide, retrieved
from kaosmem.assembly.packing import Limits, Packer, Packing
from kaosmem.assembly.shortening import Shortened, Shortener
from kaosmem.display import counted, listed
from kaosmem.errors import InvalidArgumentError, WindowTooSmallError
from kaosmem.filters import MetadataFilter
from kaosmem.formats import Format, Rendered
from kaosmem.formats.text import adds_up
from kaosmem.names import shown, shown_number
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import Item

Overflow: TypeAlias = Literal["raise", "cut"]
"""The treatment of required items that do not fit: an error, or shortened copies."""


@dataclass(frozen=True, kw_only=True)
class Offers:
    """Everything that is offered for a context, and how it is to be packed.

    Args:
        specs: The specs in order of declaration.
        proposals: The proposals by section name. A section without one is not shown.
        budget: Tokens of the request with its reserve.
        reserve: Tokens that are kept free.
        overflow: The treatment of required items that do not fit.
        min_confidence: Retrieved units are left out below it.
        wanted: The filter that the proposals passed, or None.
        sources: The status of attached sources, for the record.
        decide: Answers for items that were not proposed.
        known: Yields the items that the session has at hand; for True, those of its files too.
    """

    specs: Sequence[SectionSpec]
    proposals: Mapping[str, Proposal]
    budget: int
    reserve: int
    format: Format
    counter: TokenCounter
    query: str
    overflow: Overflow
    min_confidence: float
    wanted: MetadataFilter | None
    sources: Mapping[str, SourceReport]
    decide: Callable[[str], Decision]
    known: Callable[[bool], Iterable[Item]]

    def pack(self, limits: Limits | None = None) -> tuple[Context, Packing]:
        """Return the context that packs all this into the budget, and its packing.

        Args:
            limits: The limits of the histories and the block. The default is none.

        Raises:
            WindowTooSmallError: If the required items do not fit, with the sums.
        """
        packed = self._packed(limits)
        proposals = self.proposals.values()
        judge = cache(partial(confidence_of, self.query, packed.packing.items, proposals))
        if self.min_confidence:
            found = judge()
            if found is not None and found < self.min_confidence:
                packed = self._packed(limits, retrieved(packed.packing))
        by_section = packed.packing.by_section
        context = Context(
            format=self.format.name,
            query=self.query,
            budget=self.budget - self.reserve,
            used=packed.used,
            frame=packed.used - sum(use.used for use in by_section.values()),
            items=packed.packing.items,
            by_section=by_section,
            sources=dict(self.sources),
            rendered=packed.rendered,
            _format=self.format,
            _counter=self.counter,
            _proposed=partial(decide, packed.packing),
            _others=self.decide,
            _known=self.known,
            _judge=judge,
            notices=tuple(_notices(self.proposals, packed.packing)),
            filter=self.wanted,
            asked=tuple(spec.name for spec in self.specs),
        )
        return context, packed.packing

    def _packed(
        self, limits: Limits | None, barred: Mapping[str, frozenset[int]] = MappingProxyType({})
    ) -> _Packed:
        """Return the proposals packed into the window, and counted as rendered.

        Args:
            barred: As of `Packer`.
        """
        window = self.budget - self.reserve
        offered = [name for name, each in self.proposals.items() if each.candidates]
        specs = scaled_floors([spec for spec in self.specs if spec.name in offered])
        costs = Costs(self.format, self.counter)
        room = window

        def pack(some: Shortened) -> Packing:
            return Packer(specs, some.proposals, room, costs, some.ids, barred, limits).pack()

        while True:
            try:
                if self.overflow == "cut":
                    packing = Shortener(specs, self.proposals, counter=self.counter).packed(pack)
                else:
                    packing = pack(Shortened(self.proposals))
            except WindowTooSmallError as error:
                raise _with_loss(error, window, window - room) from None
            rendered = self.format.render(packing.layout)
            if self.counter.additive and adds_up(packing.layout.static):
                used = packing.used
            else:
                used = self.format.count(rendered, self.counter)
            if used <= window:
                return _Packed(packing, rendered, used)
            # Pieces of a counter that is not additive can weigh more together: give the difference
            # up and pack again.
            room -= used - window


def _with_loss(
    error: WindowTooSmallError,
    window: int,
    lost: int,
) -> WindowTooSmallError:
    """Return an error with the tokens in its sums that pieces weigh more together."""
    if not lost or FRAME not in error.need:
        return error
    return window_too_small({**error.need, FRAME: error.need[FRAME] + lost}, window)


def _notices(proposals: Mapping[str, Proposal], packing: Packing) -> Iterator[str]:
    left_out = _unrelated(packing)
    if left_out:
        names = listed([shown(name) for name in left_out], 3)
        number = sum(left_out.values())
        yield f"nothing in {names} speaks for the query: {counted(number, 'candidate')} left out"
    for name, proposal in proposals.items():
        if proposal.has_no_match:
            yield f"nothing in {shown(name)} speaks for the query"
        if proposal.unanswered:
            yield f"the filter leaves out all of {shown(name)}: {proposal.unanswered}"
    if not packing.items:
        yield from _nothing_fits(packing)


def _nothing_fits(packing: Packing) -> Iterator[str]:
    """Yield how many tokens the best candidate lacks, if there was room for none."""
    too_large = [each for each in decide(packing) if each.lacking is not None]
    if too_large:
        best = max(too_large, key=lambda each: each.score or 0)
        lacking = counted(best.lacking or 0, "more token")
        yield f"nothing fits: the best match needs {lacking}; raise the budget"


def _unrelated(packing: Packing) -> dict[str, int]:
    """Return the number of units left out as unrelated, for each section that shows nothing."""
    found = {}
    for name, share in packing.shares.items():
        if share.unrelated and not share.taken:
            left = sum(unit.position in share.unrelated for unit in share.left_out)
            if left:
                found[name] = left
    return found


class _Packed(NamedTuple):
    packing: Packing
    rendered: Rendered
    used: int


def check_budget(budget: object, reserve: object = 0) -> int:
    """Return the window that a budget less a reserve leaves, in tokens.

    Raises InvalidArgumentError.
    """
    for name, value in (("budget", budget), ("reserve", reserve)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidArgumentError(
                f"{name} is {shown_number(value)}; give a whole number of tokens from 0 up"
            )
    assert isinstance(budget, int)
    assert isinstance(reserve, int)
    if reserve > budget:
        raise InvalidArgumentError(
            f"reserve {reserve} is more than the whole budget {budget}; lower it"
        )
    return budget - reserve
