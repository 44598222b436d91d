"""FormsFrom: from which sections a section is formed, by which former, and when."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.arguments import check_collection, check_count, check_instance, check_ttl
from kaosmem.errors import InvalidArgumentError
from kaosmem.formation.changes import KINDS, Former, Kind
from kaosmem.formation.shelf import FactShelf
from kaosmem.names import check_name, name_hint, shown_name


@dataclass(frozen=True)
class FormsFrom:
    """From which sections a section is formed, by which former, and when.

    A formation runs beside the turns. No turn waits for it.

    Attributes:
        former: Proposes the changes.
        sections: The names of the sections to form from.
        every_turns: A formation starts after a call of `assemble_context` if so many messages of
            people wait. None: never.
        idle_s: A formation starts when no context was assembled for so many seconds. None: never.
        at_close: The session is formed when its block ends, before the last save.
        kinds: Form changes of these kinds alone, such as "procedural" for rules. The default is
            all.
        explicit_only: Form only what somebody asked to remember.
        review: Let every proposal wait for a person in `memory.proposals`.
        shelf: Long-term memory that gets each formed fact too.

    Raises:
        InvalidArgumentError: If an argument is not valid.

    >>> from kaosmem import SectionSpec
    >>> from kaosmem.formation import PatternFormer
    >>> spec = SectionSpec("facts", 4_000, forms_from=FormsFrom(PatternFormer(), every_turns=8))
    >>> spec.forms_from.sections
    ('messages',)
    """

    former: Former
    sections: tuple[str, ...] = ("messages",)
    every_turns: int | None = None
    idle_s: float | None = None
    at_close: bool = False
    kinds: tuple[Kind, ...] = ()
    explicit_only: bool = False
    review: bool = False
    shelf: FactShelf | None = None

    def __post_init__(self) -> None:
        check_instance(self.former, Former, "former")
        names = [
            check_name(name, "section") for name in check_collection(self.sections, "sections")
        ]
        if not names:
            raise InvalidArgumentError("a formation has no sections; name one, such as 'messages'")
        object.__setattr__(self, "sections", tuple(names))
        for kind in check_collection(self.kinds, "kinds"):
            if kind not in KINDS:
                raise InvalidArgumentError(
                    f"no kind {shown_name(kind)} of a change; {name_hint(kind, KINDS)}"
                )
        if self.every_turns is not None:
            check_count(self.every_turns, "every_turns", least=1)
        if self.idle_s is not None:
            check_ttl(self.idle_s, "idle_s")
        if self.shelf is not None:
            check_instance(self.shelf, FactShelf, "shelf")

    def mark(self, section: str) -> str:
        """Return the name of the mark up to which a section was formed."""
        return f"{section}/{self.former.name}"  # no name of a section has a slash
