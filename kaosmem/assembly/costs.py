"""Token costs of the parts of a context, as rendered in its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kaosmem.errors import SectionFullError
from kaosmem.formats import BlockPlace, Format, HistoryEntry, Mark, get_format
from kaosmem.formats.labels import LabelStyle
from kaosmem.formats.text import header_piece, item_tokens, recalled_header
from kaosmem.names import shown
from kaosmem.sections import Candidate, SectionSpec
from kaosmem.tokens import TokenCounter
from kaosmem.types import ChatMessage, Item
from kaosmem.units import repair


class Costs:
    """The costs of one format under one counter. An item is measured once for each, and keeps its size."""

    def __init__(self, format: Format, counter: TokenCounter) -> None:  # noqa: A002
        self._format, self._counter = format, counter
        self._lines: dict[str, int] = {}
        self._as_entry = f"{format.name} {counter.name}"

    def pieces(self, style: LabelStyle) -> Callable[[Iterable[Item], Item | None, bool], int]:
        """Return a measure of items in the system message or the block.

        It takes the items, the item of their section that is shown before them, and whether they are marked as newer.
        """
        forms = {
            (newer, continued): (
                f"{'continued ' if continued else ''}{'newer ' if newer else ''}piece {style} {self._counter.name}",
                partial(item_tokens, counter=self._counter, style=style, continued=continued, newer=newer),
            )
            for newer in (False, True)
            for continued in (False, True)
        }

        def size(items: Iterable[Item], before: Item | None, newer: bool) -> int:
            tokens = 0
            for item in items:
                tokens += item.size(*forms[newer, style.continues(item, before)])
                before = item
            return tokens

        return size

    def entries(self, unit: Candidate) -> int:
        """Return the tokens of a unit in a history, repaired."""
        if len(unit.items) == 1:
            return unit.items[0].size(self._as_entry, self._measure_entry)
        # A unit is measured once for its content: a result that arrives or an update makes it another form.
        contents = hash(tuple(item.content for item in unit.items))
        return unit.items[-1].size(
            f"{self._as_entry} {contents}",
            lambda _: sum(self._format.entry_tokens(entry, self._counter) for entry in entries_of(unit)),
        )

    def header(self, spec: SectionSpec) -> int:
        """Return the tokens of a section's header in the system message or the block."""
        return 0 if spec.is_verbatim else self._counter(header_piece(spec.title))

    def recalled_header(self, spec: SectionSpec, left_out: int | None, recalled: int) -> int:
        """Return the tokens of the header over so many recalled items; `left_out` as for the header itself."""
        line = recalled_header(spec.title, recalled=recalled, left_out=left_out)
        if line not in self._lines:
            self._lines[line] = self._counter(line)
        return self._lines[line]

    def history_header(self, spec: SectionSpec) -> int:
        """Return the tokens of a history's header."""
        return self._format.history_header_tokens(spec.title, self._counter)

    def mark(self, left_out: int) -> int:
        """Return the tokens of the mark for so many messages left out of a history; 0 for none."""
        return self._format.entry_tokens(Mark(left_out), self._counter) if left_out else 0

    def frame(self, *, static: bool, first: HistoryEntry | None, block: BlockPlace | None) -> int:
        """Return the tokens of no section; `first` is the entry that the histories begin with."""
        return self._format.frame_tokens(static=static, first=first, block=block, counter=self._counter)

    def block_place(self, last: ChatMessage | Mark | None) -> BlockPlace:
        """Return where the block stands when this is the last entry of the history."""
        takes_block = last is not None and self._format.takes_block(last)
        return BlockPlace.IN_MESSAGE if takes_block else BlockPlace.OWN_MESSAGE

    def _measure_entry(self, item: Item) -> int:
        known = item.tokens if isinstance(item.content, str) else None
        return sum(self._format.entry_tokens(entry, self._counter, known=known) for entry in repair((item.message,)))


def entries_of(unit: Candidate) -> list[ChatMessage]:
    """Return a unit as the messages that a history shows of it."""
    return repair([item.message for item in unit.items])


def check_required(spec: SectionSpec, required: Sequence[Item], item: Item, counter: TokenCounter) -> None:
    """Raise SectionFullError if an item that must be shown exceeds the budget of its section.

    required: the items of a static section that must be shown with it, itself included, in order.
    """
    costs = Costs(get_format("text"), counter)  # which costs the same as every other outside the histories
    size = costs.pieces(spec.labels)
    need = costs.header(spec) + size(required, None, False)
    if spec.budget is None or need <= spec.budget:
        return
    alone = costs.header(spec) + size((item,), None, False)
    raise SectionFullError(
        f"section {spec.name!r} would have to show {need:,} tokens, {alone:,} of them for item {shown(item.id)}, and "
        f"its budget is {spec.budget:,}; shorten or remove such items, or raise the budget, as by "
        f"DEFAULT_SECTIONS.replace({spec.name}={{'budget': {need}}})",
        section=spec.name,
        need=need,
        budget=spec.budget,
    )
