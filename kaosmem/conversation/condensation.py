"""Condensations: records of the events that a view leaves out, with their summaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from kaosmem.arguments import check_text, is_integer
from kaosmem.conversation.events import ConversationEvent
from kaosmem.errors import InvalidArgumentError
from kaosmem.types.content import Trust
from kaosmem.types.items import ChatMessage


@dataclass(frozen=True, slots=True, repr=False)
class Condensation(ConversationEvent):
    """A record by which the view leaves events out, and may show a summary in their place.

    Raises InvalidArgumentError.

    Attributes:
        forgotten_ids: Ids of events. Ids that the view does not show change nothing.
        summary: It stands where the last of the events was, if a view shows one of them.
        pinned: Its summary stays in every view.
    """

    type: ClassVar[str] = "condensation"
    forgotten_ids: tuple[int, ...]
    summary: str | None = None

    def __post_init__(self) -> None:
        ConversationEvent.__post_init__(self)
        given: object = self.forgotten_ids
        ids = tuple(given) if isinstance(given, Iterable) else (None,)
        if not all(map(is_integer, ids)):
            raise InvalidArgumentError(
                "forgotten_ids holds other than ids of events; give whole numbers"
            )
        object.__setattr__(self, "forgotten_ids", ids)
        if self.summary is not None and not check_text(self.summary, "summary").strip():
            raise InvalidArgumentError(
                "a condensation's summary is blank; give one that says something, or none"
            )


@dataclass(frozen=True, slots=True, repr=False)
class SummaryEvent(ConversationEvent):
    """The summary that a view shows for a condensation, under the condensation's id.

    It is never logged.

    Attributes:
        sources: Ids of the summarised events.
        trust: The lowest among them.
    """

    type: ClassVar[str] = "summary"
    content: str
    sources: tuple[int, ...] = ()
    trust: Trust = Trust.MODEL

    @property
    def is_shown(self) -> bool:
        """Return whether a model may see it."""
        return True

    def _made_message(self) -> ChatMessage:
        return ChatMessage(
            "summary",
            self.content,
            id=self.name,
            sources=tuple(map(str, self.sources)),
            trust=self.trust,
        )
