"""Pack the candidates of all sections into a token budget: pure, exact, explained.

want   each source has proposed units, best first
grant  `allocate` shares the window out
fit    whole units, until nothing more fits
build  static sections, histories, then the block that depends on the query
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Literal, NamedTuple

from kaosmem.arguments import check_share
from kaosmem.assembly.allocation import FRAME, Costs, scaled_floors, window_too_small
from kaosmem.assembly.confidence import confidence_of
from kaosmem.assembly.context import Context, Decision, SourceReport
from kaosmem.assembly.packing import Limits, Packer, Packing
from kaosmem.assembly.shortening import Shortened, Shortener, with_best_shortened
from kaosmem.display import listed
from kaosmem.errors import InvalidArgumentError, WindowTooSmallError
from kaosmem.formats import Format, Rendered
from kaosmem.names import shown, shown_name, shown_number
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter


def assemble(
    specs: Sequence[SectionSpec],
    proposals: Mapping[str, Proposal],
    *,
    budget: int,
    format: Format,
    counter: TokenCounter,
    query: str = "",
    reserve: int = 0,
    overflow: Literal["raise", "cut"] = "raise",
    min_confidence: float = 0.0,
    limits: Limits | None = None,
    decide: Callable[[str], Decision],
    sources: Mapping[str, SourceReport] | None = None,
) -> tuple[Context, Packing]:
    """Return the context that packs the proposals into `budget - reserve` tokens, and its packing.

    specs: in order of declaration. proposals: by section name; a section without one is not shown.
    overflow: treatment of required items that do not fit. decide: answers for items that were not
        proposed.
    min_confidence: below it, retrieved units are left out. limits: as of `Packer`.
    sources: status of attached sources, for the record.
    Raises WindowTooSmallError, with the sums, if the required items do not fit;
    InvalidArgumentError and InvalidArgumentError.
    """
    window = check_budget(budget, reserve)
    if overflow not in ("raise", "cut"):
        raise InvalidArgumentError(f"overflow is {shown_name(overflow)}; use 'raise' or 'cut'")
    least = check_share(min_confidence, "min_confidence")
    shown_specs = scaled_floors(
        [spec for spec in specs if spec.name in proposals and proposals[spec.name].candidates]
    )
    pack = partial(
        _packed,
        shown_specs,
        proposals,
        window=window,
        format=format,
        counter=counter,
        cuts=overflow == "cut",
        limits=limits,
    )
    packed = pack()
    judge = cache(partial(confidence_of, query, packed.packing.items, [*proposals.values()]))
    if least and (found := judge()) is not None and found < least:
        packed = pack(barred=packed.packing.retrieved)
    by_section = packed.packing.by_section
    context = Context(
        format=format.name,
        query=query,
        budget=window,
        used=packed.used,
        frame=packed.used - sum(use.used for use in by_section.values()),
        items=packed.packing.items,
        by_section=by_section,
        sources=dict(sources or {}),
        rendered=packed.rendered,
        _format=format,
        _counter=counter,
        _proposed=packed.packing.decide,
        _others=decide,
        _judge=judge,
        notices=tuple(_notices(proposals, packed.packing)),
    )
    return context, packed.packing


def _notices(proposals: Mapping[str, Proposal], packing: Packing) -> Iterator[str]:
    if unrelated := packing.unrelated:
        names = listed([shown(name) for name in unrelated], 3)
        yield f"nothing in {names} speaks for the query: {sum(unrelated.values()):,} candidates are left out"
    for name, proposal in proposals.items():
        if proposal.has_no_match:
            yield f"nothing in {shown(name)} speaks for the query"
        if proposal.unanswered:
            yield f"the filter leaves out all of {shown(name)}: {proposal.unanswered}"


class _Packed(NamedTuple):
    packing: Packing
    rendered: Rendered
    used: int


def _packed(
    specs: Sequence[SectionSpec],
    proposals: Mapping[str, Proposal],
    *,
    window: int,
    format: Format,
    counter: TokenCounter,
    cuts: bool,
    limits: Limits | None = None,
    barred: Mapping[str, frozenset[int]] = MappingProxyType({}),
) -> _Packed:
    """Return the proposals packed into a window, and counted as rendered.

    cuts: whether required texts that do not fit are shortened. barred: as of `Packer`.
    """
    costs = Costs(format, counter)
    whole = with_best_shortened(specs, proposals, window, costs)
    room = window

    def pack(what: Shortened) -> Packing:
        return Packer(specs, what.proposals, room, costs, what.ids, barred, limits).pack()

    while True:
        try:
            packing = (
                Shortener(specs, whole.proposals, counter=counter, ids=whole.ids).packed(pack)
                if cuts
                else pack(whole)
            )
        except WindowTooSmallError as error:
            if room == window or FRAME not in error.need:
                raise
            heavier = {**error.need, FRAME: error.need[FRAME] + window - room}
            raise window_too_small(heavier, window) from None
        rendered = format.render(packing.layout)
        used = (
            packing.used
            if counter.additive and packing.adds_up
            else format.count(rendered, counter)
        )
        if used <= window:
            return _Packed(packing, rendered, used)
        # Pieces of a counter that is not additive can weigh more together: give the difference up
        # and pack again.
        room -= used - window


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
