"""Assemblers to compare: each chooses items of a corpus for a question within a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kaosmem.formats import get_format
from kaosmem.sections.spec import DEFAULT_SECTIONS, SectionSpec
from kaosmem.session import SessionMemory
from kaosmem.tokens import TokenCounter

if TYPE_CHECKING:
    from kaosmem.assembly import Context
    from kaosmem.evaluation.evidence import EvidenceItem
    from kaosmem.types import JSONValue

SECTION = next(spec for spec in DEFAULT_SECTIONS if spec.name == "documents")


@dataclass(frozen=True, slots=True)
class Selection:
    """The context that an assembler made.

    item_ids: in the order in which they are shown. used: tokens, as the assembler counts them.
    handed_over: the text or the messages that a model would get.
    faults: names the violations in it, and is asked when the time has been taken.
    """

    item_ids: tuple[str, ...]
    used: int
    handed_over: str | Sequence[JSONValue]
    faults: Callable[[], Iterable[str]] = field(default=tuple, repr=False, compare=False)

    @property
    def text(self) -> str:
        """Return the context as one text."""
        if isinstance(self.handed_over, str):
            return self.handed_over
        return "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self.handed_over)


class Packer(Protocol):
    """Answers questions about the items that it was made of."""

    async def __call__(self, query: str, budget: int) -> Selection:
        """Return a context of at most `budget` tokens."""
        ...


@runtime_checkable
class Assembler(Protocol):
    """A way of filling a budget. Implement it to compare your own."""

    @property
    def name(self) -> str:
        """Return the assembler's name in reports."""
        ...

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Take in the items of a corpus, oldest first, whatever will be asked about them."""
        ...


@dataclass(frozen=True)
class SessionAssembler:
    """A session with all items in one section, assembled as a user of kaosmem would.

    spec: of that section; two specs, or rankers, are compared as two assemblers of different names.
    """

    name: str = "kaosmem"
    _: KW_ONLY
    spec: SectionSpec = SECTION
    format: str = "text"
    counter: TokenCounter | str | None = None

    def session(self, items: Sequence[EvidenceItem]) -> SessionMemory:
        """Return a session with the items in its one section; it is never on disk."""
        spec = replace(self.spec, persistence="none")
        memory = SessionMemory.test_mode(sections=(spec,), counter=self.counter)
        for item in items:
            metadata = {"source": item.session, "timestamp": item.timestamp}
            metadata = {name: value for name, value in metadata.items() if value}
            memory.add(spec.name, item.text, id=item.id, role=item.role, key=item.key or None, metadata=metadata)
        return memory

    def load(self, items: Sequence[EvidenceItem]) -> Packer:
        """Add the items to a session and index them."""
        memory = self.session(items)
        memory.search("index", self.spec.name, limit=1)  # the index is built when it is first asked

        async def pack(query: str, budget: int) -> Selection:
            context = await memory.assemble_context(query, budget=budget, format=self.format)
            ids = tuple(item.id for item in context.items)
            return Selection(ids, context.used, _handed_over(context), lambda: faults(context, memory))

        return pack


def _handed_over(context: Context) -> str | list[JSONValue]:
    rendered = context.rendered
    if rendered.text is not None:
        return rendered.text
    system = [] if rendered.system is None else [{"role": "system", "content": rendered.system}]
    return system + context.messages


def faults(context: Context, memory: SessionMemory) -> Iterable[str]:
    """Yield the violations in a context: of its sum, counted again from scratch, and of its sections' caps."""
    counted = get_format(context.format).count(context.rendered, memory.counter)
    if counted != context.used:
        yield f"counted again it has {counted} tokens, not {context.used}"
    for name, use in context.by_section.items():
        cap = memory[name].budget
        if cap is not None and use.used > cap:
            yield f"section {name!r} takes {use.used} tokens, more than its {cap}"
