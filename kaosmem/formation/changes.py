"""Changes of a memory that a former proposes, and their fate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from kaosmem.errors import MissingFileError
from kaosmem.names import shown
from kaosmem.types import JSONObject
from kaosmem.types.items import Item

Action: TypeAlias = Literal["add", "update", "retire"]
Kind: TypeAlias = Literal["semantic", "episodic", "procedural"]

ACTIONS: tuple[Action, ...] = get_args(Action)
KINDS: tuple[Kind, ...] = get_args(Kind)

NOT_PEOPLE = frozenset(("", "assistant", "system", "tool", "summary"))
"""Roles whose texts are no words of a person. A document has none, and so no speaker."""

UNUSABLE = "unusable answer"
"""The reason of a refusal for what is no change at all, or none that an item can hold."""


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change that a former proposes. It is applied only if its words are in its sources.

    Attributes:
        text: One statement that can be understood alone. For `retire`, it may repeat the quote.
        quote: The words of one source that say so, to the letter but for spaces and case.
        sources: The ids of the items that the statement comes from.
        action: `add`, `update` (another value of a key) or `retire` (a key that no longer holds).
        kind: `semantic` (facts, preferences, entities, relations), `episodic` or `procedural`.
        key: The name of the fact, such as `ann/home`. A new value of a key is a new version.
        valid_from: When the fact began to hold, in ISO 8601. The default is the time of the quote.
        details: Further metadata of the item, such as the title of an episode.
        worked: Of a procedure: whether its quote says that it worked, or that it failed. A run of
            a known procedure is counted for it. An unknown one is added if it worked.
    """

    text: str
    quote: str
    sources: tuple[str, ...]
    action: Action = "add"
    kind: Kind = "semantic"
    key: str | None = None
    valid_from: str | None = None
    details: JSONObject = field(default_factory=dict, hash=False)
    worked: bool | None = None

    @property
    def is_run(self) -> bool:
        """Return whether it tells of a run of a procedure, with its outcome."""
        return self.kind == "procedural" and self.action != "retire" and self.worked is not None


@dataclass(frozen=True, slots=True)
class Draft:
    """The changes that a former proposes for a list of messages.

    Attributes:
        changes: The proposed changes, in the order in which they were said.
        covered: The number of messages that are done. The former is asked for the others at once,
            and by the next formation if it covers none of them. None stands for all.
        faults: One reason for each part of an answer that could not be used.
        has_exact_keys: Fixed rules give the keys, so that one key always means one subject. A new
            value of such a key needs no word in common with the old one.
        spent: The number of tokens that the draft has cost.
        failure: Why the former could not work, "" if it did. It becomes a notice.
    """

    changes: Sequence[ProposedChange] = ()
    covered: int | None = None
    faults: Sequence[str] = ()
    has_exact_keys: bool = False
    spent: int = 0
    failure: str = ""


@runtime_checkable
class Former(Protocol):
    """Turns messages into proposed changes.

    Attributes:
        name: Each name has a mark of its own in the session's log. Two formers of different names
            are given the same messages.
        budget: Tokens that one session may spend. None: no limit. The attribute may be missing.
    """

    @property
    def name(self) -> str: ...

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return the changes that messages ask for.

        Args:
            said: The messages since the last formation, oldest first.
            known: The live items of the section that is formed.
        """


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that was applied. It prints its text.

    Attributes:
        change: The change as it was proposed.
        item: The item that was added, or the item that was retired.
    """

    change: ProposedChange
    item: Item

    def __str__(self) -> str:
        return self.item.text


def text_of(file: str | Path | None, *default: str) -> str:
    """Return the text of a caller's file, or of one of this package. Raises MissingFileError."""
    try:
        if file is None:
            return files("kaosmem.formation").joinpath(*default).read_text("utf-8")
        return Path(file).read_text("utf-8")
    except (OSError, TypeError, ValueError):
        raise MissingFileError(
            f"no file {shown(str(file))} can be read; give the path of a text"
        ) from None
