"""One call of `assemble_context`: its checked arguments, all that is offered for it, its context.

want   each source has proposed units, best first
grant  `allocate` shares the window out
fit    whole units, until nothing more fits
build  static sections, histories, then the block that depends on the query
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

from kaosmem.arguments import (
    JSONDict,
    check_collection,
    check_share,
    check_text,
    json_text,
    text_digest,
)
from kaosmem.assembly.allocation import (
    FRAME,
    INSTRUCTIONS,
    FormatCosts,
    cap_of,
    scaled_floors,
    window_too_small,
)
from kaosmem.assembly.confidence import confidence_of, terms_of
from kaosmem.assembly.context import Context, Decision, SourceReport
from kaosmem.assembly.decisions import decide, retrieved
from kaosmem.assembly.packing import Limits, Packing, Proposals, WindowPacker
from kaosmem.assembly.shortening import excerpt_of, packed_shortened
from kaosmem.display import comma_list, count_text
from kaosmem.errors import InvalidArgumentError, WindowTooSmallError
from kaosmem.filters import Filter, parse_filter
from kaosmem.formats import Format, Layout, Rendered, get_format, tool_dicts, tool_tokens
from kaosmem.formats.text import adds_up
from kaosmem.language.analysis import analyze
from kaosmem.names import shown, shown_name, shown_number
from kaosmem.sections.proposal import excerpt_tokens
from kaosmem.sections.spec import SectionSpec
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import Item, once_per_item

Overflow: TypeAlias = Literal["raise", "cut"]
"""The treatment of required items that do not fit: an error, or shortened copies."""

T = TypeVar("T")

_LEAST_IN_BLOCK = 192
"""An excerpt in the block of a window has so many tokens, however small the block is."""

_EMPTY_LAYOUT = Layout((), (), ())


@dataclass(frozen=True)
class Instructions:
    """The system prompt and the tools of one call: counted and sent, but not stored.

    Args:
        system: The instructions, as they are sent.
        tools: The tools in the format of the call, as they were given.
        schemas: The tools as dicts.
    """

    system: str
    tools: tuple[object, ...]
    schemas: Sequence[JSONDict]

    @property
    def digest(self) -> str:
        """Return a digest of all that a provider may bind thinking to; "" for no instructions."""
        if not self.system.strip() and not self.tools:
            return ""
        return text_digest(json_text([self.system, self.schemas]))

    def tokens(self, format: Format, counter: TokenCounter) -> int:
        """Return the tokens of a request of the instructions alone."""
        alone = self._joined(format.render(_EMPTY_LAYOUT))
        return format.count(alone, counter) + tool_tokens(self.schemas, format, counter)

    @property
    def _piece(self) -> str:
        text = self.system.strip()
        return f"{text}\n" if text else ""

    def _joined(self, rendered: Rendered) -> Rendered:
        """Return a request that begins with the instructions."""
        if not self._piece:
            return rendered
        if rendered.text is not None:
            return replace(rendered, text=self._piece + rendered.text)
        if rendered.system is not None:
            return replace(rendered, system=self._piece + rendered.system)
        message = {"role": "system", "content": self.system.strip()}
        return replace(rendered, messages=[message, *(rendered.messages or ())])

    def before(self, context: Context, budget: int) -> Context:
        """Return a context with the instructions before it, in a budget for both."""
        rendered = self._joined(context.rendered)
        added = self._added(context, rendered)
        shift = len(rendered.messages or ()) - len(context.rendered.messages or ())
        prefix_tokens = context.prefix_tokens
        if prefix_tokens:
            prefix_tokens += added
        return replace(
            context,
            budget=budget,
            used=context.used + added,
            frame=context.frame + added,
            rendered=rendered,
            tools=self.tools,
            prefix_tokens=prefix_tokens,
            cache_breakpoints=tuple(at + shift for at in context.cache_breakpoints),
        )

    def _added(self, context: Context, rendered: Rendered) -> int:
        """Return the tokens that the instructions add: messages add up, so that one is enough."""
        count = context._format.count
        counter = context._counter
        before = context.rendered
        if before.text is not None:
            added = count(rendered, counter) - count(before, counter)
        else:
            if before.messages:
                first = before.messages[:1]
            else:
                first = []
            alone = replace(before, messages=first)
            added = count(self._joined(alone), counter) - count(alone, counter)
        return added + tool_tokens(self.schemas, context._format, counter)


class ContextCall:
    """The checked arguments of a call, as `SessionMemory.assemble_context` describes them.

    Attributes:
        query: The question. None stands for the newest one.
        tokens: The budget without the reserve.
        wanted: The parsed filter, or None.
        overflow: The treatment of required items that do not fit.
        min_confidence: Retrieved units are left out below it.

    Raises:
        InvalidArgumentError: If an argument is not valid.
    """

    def __init__(
        self,
        query: str | None,
        *,
        budget: int,
        format: str | Format = "text",
        reserve: int = 0,
        filter: Filter | None = None,
        overflow: Overflow = "raise",
        min_confidence: float = 0.0,
        system: str = "",
        tools: Iterable[object] = (),
    ) -> None:
        self.tokens = check_budget(budget, reserve)
        self.budget = budget
        if overflow not in ("raise", "cut"):
            raise InvalidArgumentError(f"overflow is {shown_name(overflow)}; use 'raise' or 'cut'")
        self.overflow = overflow
        self.query = None
        if query is not None:
            self.query = check_text(query, "query")
        self.format = get_format(format)
        self.wanted = None
        if filter is not None:
            self.wanted = parse_filter(filter)
        self.min_confidence = check_share(min_confidence, "min_confidence")
        given = tuple(check_collection(tools, "tools"))
        self.instructions = Instructions(check_text(system, "system"), given, tool_dicts(given))


@dataclass(frozen=True, kw_only=True)
class Offers:
    """Everything that is offered for a context.

    Args:
        call: The call, whose filter the proposals passed.
        room: Tokens of the request, without the reserve and the instructions of the call.
        query: The question.
        specs: The specs in order of declaration.
        proposals: The proposals by section name. A section without one is not shown.
        sources: The status of attached sources, for the record.
        decide: Answers for items that were not proposed.
        known: Yields the items that the session has at hand; for True, those of its files too.
    """

    call: ContextCall
    room: int
    query: str
    specs: Sequence[SectionSpec]
    proposals: Proposals
    counter: TokenCounter
    sources: Mapping[str, SourceReport]
    decide: Callable[[str], Decision]
    known: Callable[[bool], Iterable[Item]]

    @cached_property
    def costs(self) -> FormatCosts:
        """The costs of all that is offered."""
        return FormatCosts(self.call.format, self.counter)

    def with_instructions(self, make: Callable[[Offers], tuple[Context, T]]) -> tuple[Context, T]:
        """Return a context with the instructions of the call, and the rest of what `make` returns.

        Args:
            make: Packs offers into the room that the instructions leave.

        Raises:
            WindowTooSmallError: If the instructions leave too little room.
        """
        instructions = self.call.instructions
        if not instructions.digest:
            return make(self)
        needed = instructions.tokens(self.call.format, self.counter)
        while needed <= self.room:
            try:
                context, rest = make(replace(self, room=self.room - needed))
            except WindowTooSmallError as error:
                if FRAME not in error.need:
                    raise
                need = {INSTRUCTIONS: needed, **error.need}
                raise window_too_small(need, self.room) from None
            whole = instructions.before(context, self.room)
            if whole.used <= self.room:
                return whole, rest
            # A counter that is not additive may find more in texts that stand together.
            needed += whole.used - self.room
        raise window_too_small({INSTRUCTIONS: needed}, self.room)

    def pack(self, limits: Limits | None = None) -> tuple[Context, Packing]:
        """Return the context that packs all this into the budget, and its packing.

        The instructions of the call are left out.

        Args:
            limits: The limits of the histories and the block. The default is none.

        Raises:
            WindowTooSmallError: If the required items do not fit, with the sums.
        """
        packing, rendered, used = self._packed(limits)
        proposals = self.proposals.values()
        judge = cache(partial(confidence_of, self.query, packing.items, proposals))
        if self.call.min_confidence:
            found = judge()
            if found is not None and found < self.call.min_confidence:
                packing, rendered, used = self._packed(limits, retrieved(packing))
        context = Context(
            format=self.call.format.name,
            query=self.query,
            budget=self.room,
            used=used,
            frame=used - packing.taken,
            items=packing.items,
            by_section=packing.by_section,
            sources=dict(self.sources),
            rendered=rendered,
            _format=self.call.format,
            _counter=self.counter,
            _proposed=partial(decide, packing),
            _others=self.decide,
            _known=self.known,
            _judge=judge,
            notices=tuple(self._notices(packing)),
            filter=self.call.wanted,
            asked=tuple(map(attrgetter("name"), self.specs)),
        )
        return context, packing

    def _notices(self, packing: Packing) -> Iterator[str]:
        yield from _unanswered(self.proposals, packing)
        if not packing.items:
            yield from _nothing_fits(packing)
        elif self.query is not None:
            yield from _too_large(packing, self.query, self.room)
        if packing.packer.limits is None:
            yield from _at_own_budget(packing)

    def _packed(
        self, limits: Limits | None, barred: Mapping[str, frozenset[int]] = MappingProxyType({})
    ) -> tuple[Packing, Rendered, int]:
        """Return the proposals packed into the window and rendered, and the tokens as rendered.

        Args:
            barred: As of `WindowPacker`.
        """
        window = self.room
        offered = {name for name, each in self.proposals.items() if each.candidates}
        specs = scaled_floors([spec for spec in self.specs if spec.name in offered])
        room = window
        proposals, shortened = self._with_excerpts(limits)
        while True:
            packer = WindowPacker(
                specs,
                proposals,
                room,
                self.costs,
                barred,
                limits,
                shortened=shortened,
                query=self.query,
            )
            try:
                if self.call.overflow == "cut":
                    packing = packed_shortened(packer)
                else:
                    packing = packer.pack()
            except WindowTooSmallError as error:
                lost = window - room
                if not lost or FRAME not in error.need:
                    raise
                need = {**error.need, FRAME: error.need[FRAME] + lost}
                raise window_too_small(need, window) from None
            rendered = self.call.format.render(packing.layout)
            if self.counter.additive and adds_up(packing.layout.static):
                used = packing.used
            else:
                used = self.call.format.count(rendered, self.counter)
            if used <= window:
                return packing, rendered, used
            # Pieces of a counter that is not additive can weigh more together: give the difference
            # up and pack again.
            room -= used - window

    def _with_excerpts(self, limits: Limits | None) -> tuple[Proposals, frozenset[str]]:
        """Return the proposals with excerpts of long earlier messages, and the ids of these."""
        found = dict(self.proposals)
        ids: set[str] = set()
        for spec in self.specs:
            proposal = found.get(spec.name)
            if proposal is None or not proposal.earlier:
                continue
            limit = excerpt_tokens(int(spec.recall * cap_of(spec, self.room)))
            if limits is not None:
                # Of the block of a window, earlier messages are sure of their share alone.
                share = int(spec.recall * limits.block)
                limit = min(limit, max(_LEAST_IN_BLOCK, share // 2))
            earlier = [*proposal.earlier]
            for place, unit in enumerate(earlier):
                if unit.tokens <= limit:
                    continue
                earlier[place] = excerpt_of(unit, limit, self._terms, self.counter)
                if earlier[place] is not unit:
                    ids.update(item.id for item in unit.items)
            found[spec.name] = replace(proposal, earlier=tuple(earlier))
        return found, frozenset(ids)

    @cached_property
    def _terms(self) -> frozenset[str]:
        """The terms of the question, read if a message is too long to be recalled whole."""
        return frozenset(terms_of(self.query))


def _unanswered(proposals: Proposals, packing: Packing) -> Iterator[str]:
    """Yield why sections show nothing: their units are unrelated, or the filter leaves them out."""
    left_out = {}
    for name, share in packing.shares.items():
        if share.unrelated and not share.taken:
            left = [unit for unit in share.left_out if unit.position in share.unrelated]
            if left:
                left_out[name] = len(left)
    if left_out:
        names = comma_list([shown(name) for name in left_out], 3)
        number = sum(left_out.values())
        yield f"nothing in {names} speaks for the query: {count_text(number, 'candidate')} left out"
    for name, proposal in proposals.items():
        if proposal.has_no_match:
            yield f"nothing in {shown(name)} speaks for the query"
        if proposal.unanswered:
            yield f"the filter leaves out all of {shown(name)}: {proposal.unanswered}"


def _nothing_fits(packing: Packing) -> Iterator[str]:
    """Yield how many tokens the best candidate lacks, if there was room for none."""
    too_large = [each for each in decide(packing) if each.lacking is not None]
    if too_large:
        best = max(too_large, key=lambda each: each.score or 0)
        lacking = count_text(best.lacking or 0, "more token")
        yield f"nothing fits: the best match needs {lacking}; raise the budget"


def _at_own_budget(packing: Packing) -> Iterator[str]:
    """Yield which sections leave units out for their own budget alone: the window has the room."""
    free = packing.packer.window - packing.used
    rest = {}
    for spec in packing.packer.specs:
        share = packing.shares[spec.name]
        if spec.budget is not None and (share.left_out or share.tail.left_out):
            rest[spec.name] = spec.budget - share.shown_tokens
    if all(free <= each for each in rest.values()):
        return
    short = Counter(
        each.section
        for each in decide(packing)
        if each.lacking is not None and each.lacking <= free - rest.get(each.section, free)
    )
    for name, number in short.items():
        yield (
            f"section {shown(name)} leaves out {count_text(number, 'item')} for its own budget, "
            f"and {free:,} tokens of the window are free; give it a SectionSpec with a "
            "larger budget"
        )


def _too_large(
    packing: Packing,
    query: str,
    window: int,
) -> Iterator[str]:
    """Yield a notice for an item larger than the window, if it has the most words of the query."""
    large: list[Item] = []
    for share in packing.shares.values():
        for unit in share.candidates:
            if unit.tokens > window and unit.position not in share.taken:
                large += unit.items
    if not large:
        return
    asked = frozenset(terms_of(query))

    def words_asked(item: Item) -> int:
        return len(asked & _terms(item))

    best = max(large, key=words_asked)
    most = words_asked(best)
    if all(most > words_asked(item) for item in packing.items):
        yield (
            f"item {shown(best.id)} has more of the query's words than what is shown, and its "
            f"{count_text(best.tokens, 'token')} have no room; raise the budget, or add long texts "
            "in passages"
        )


@once_per_item
def _terms(item: Item) -> frozenset[str]:
    return frozenset(analyze(item.text))


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
