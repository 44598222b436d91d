"""The result of an assembly: the context, and a decision for each item."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from kaosmem.arguments import check_collection
from kaosmem.assembly.assembled_turn import AssembledTurn
from kaosmem.assembly.credit import CLAIMED_BY_CALLER, Credit, find_uses
from kaosmem.display import comma_list, preview, truncated, width
from kaosmem.errors import InvalidArgumentError, NotFoundError
from kaosmem.formats import Format, Rendered, parse_message, read_messages
from kaosmem.formats.labels import source_label
from kaosmem.formats.request import RequestParts, request_arguments
from kaosmem.names import shown
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import ChatMessage, Item, item_dict, item_of_dict


class Reason(StrEnum):
    """The reason why an item is in a context or not. docs/glossary.md explains each."""

    MUST = "must"
    """In: system prompt, pinned, newest user message or newest unit."""
    SHORTENED = "shortened"
    """In: a copy without the middle of a required item, or the matching lines of an earlier one."""
    TAIL = "tail"
    """In: in the unbroken run of newest messages."""
    RELEVANT = "relevant"
    """In: worth its tokens to the query."""
    NEWEST = "newest"
    """In: among the newest of a section that is not ranked, or that has nothing relevant left."""
    NEWER = "newer"
    """In: it gives another value for the subject of an earlier item that is in."""
    RECALLED = "recalled"
    """In: evicted, superseded or an earlier message, worth its tokens to the query."""
    UNRELATED = "unrelated"
    """Out: nothing in the query speaks for it, or its score is below the section's `min_score`."""
    NO_ROOM = "no_room"
    """Out: did not fit in the rest of the window, of its section's cap or of its grant."""
    OUTDATED = "outdated"
    """Out: a later item gives its subject another value, and did not fit."""
    DUPLICATE = "duplicate"
    """Out: its text equals that of an item that is in, but for case and white space."""
    BEFORE_TAIL = "before_tail"
    """Out: a message before the place where the history is cut."""
    ORPHAN = "orphan"
    """Out: a tool result without its call, or a second one for the same call."""
    LOW_CONFIDENCE = "low_confidence"
    """Out: it was retrieved, and the confidence is below `min_confidence`.

    Or all matches of its section are weak, and a window is half full.
    """
    FILTERED = "filtered"
    """Out: it does not pass the filter, or did not hold or was not known at the time asked for."""
    VISIBLE = "visible"
    """In: shown by an earlier turn of the window."""
    LATER = "later"
    """Out: a window appends no further block before the user speaks again."""
    OUTRANKED = "outranked"
    """Out: its section proposed better ones."""
    NOT_SHOWN = "not_shown"
    """Out: its section was not asked for, or is never shown."""
    ARCHIVED = "archived"
    """Out: evicted, superseded, removed or replaced."""


_MADE_ID = re.compile(r"[0-9a-f]{16}")
"""An id made at random, which tells people nothing."""
_CHOSEN = Reason.RELEVANT, Reason.RECALLED


_DECISION_FIELDS = (
    "item_id",
    "section",
    "included",
    "rank",
    "score",
    "tokens",
    "same_as",
    "fault",
    "lacking",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one item, with its reason.

    Attributes:
        rank: Place in the order of its section, from 1. None if it was not offered.
        score: Given by the ranker. None if its section was not ranked.
        tokens: Of the content alone.
        lacking: Number of tokens that would have let it in as well, None if tokens did not decide.
        same_as: Id of the item that stands for it: the duplicate that is in, or the live item with
            its key.
        item: The item itself.
        fault: What of a filter the item does not meet: names of fields, and types of values that
            can't be compared.
        signals: The part of each signal of the default ranker in the logarithm of the score,
            compared with the average candidate. docs/glossary.md explains each signal.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "Ann owns the deal.")
    >>> context = await memory.assemble_context("Who owns the deal?", budget=100)
    >>> decision = context.decision(item.id)
    >>> decision.included, decision.why, decision.tokens
    (True, 'newest', 5)
    """

    item_id: str
    section: str
    included: bool
    reason: Reason
    rank: int | None
    score: float | None
    tokens: int
    same_as: str | None = None
    signals: Mapping[str, float] = field(default_factory=dict)
    item: Item | None = field(default=None, repr=False, compare=False)
    fault: str = ""
    lacking: int | None = None

    @property
    def label(self) -> str:
        """Return the source of the item, else its key, else the id that its caller gave."""
        if self.item is None:
            return self.item_id
        named = source_label(self.item) or self.item.key
        if not named and not _MADE_ID.fullmatch(self.item_id):
            return self.item_id
        return named or ""

    def summary(self, columns: int = 60) -> str:
        """Return the label of the item and the beginning of its text, at most `columns` wide."""
        if self.item is None:
            text = ""
        else:
            text = preview(self.item.text, columns)
        if not self.label:
            return text
        if text:
            room = columns - min(width(text), columns // 3) - 1
        else:
            room = columns
        label = truncated(self.label, max(1, room), tail=2 * room // 3)
        left = columns - width(label) - 1
        if text and left > 0:
            return f"{label} {preview(text, left)}"
        return label

    def to_dict(self) -> JSONDict:
        """Return the decision as JSON values, its item included."""
        stored: JSONDict = {name: getattr(self, name) for name in _DECISION_FIELDS}
        item = None
        if self.item is not None:
            item = item_dict(self.item)
        signals = dict(self.signals)
        return stored | {"reason": self.reason.value, "signals": signals, "item": item}

    @classmethod
    def from_dict(cls, stored: JSONObject) -> Decision:
        """Return the decision that `to_dict` returned. Raises InvalidArgumentError."""
        try:
            fields = {name: stored[name] for name in _DECISION_FIELDS}
            item = None
            if stored["item"] is not None:
                item = item_of_dict(stored["item"])
            reason = Reason(stored["reason"])
            return cls(**fields, reason=reason, signals=dict(stored["signals"]), item=item)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"this is no decision ({type(error).__name__}); give the value that to_dict() "
                "returned"
            ) from None

    @property
    def why(self) -> str:
        """Return the reason with the item that stands for it, the best signal or the fault."""
        if self.fault:
            return f"{self.reason.value}: {self.fault}"
        if self.same_as is None:
            strongest = max(
                self.signals.items(), key=lambda each: (each[1], each[0]), default=("", 0.0)
            )
            if self.reason in _CHOSEN and strongest[1] > 0:
                return f"{self.reason.value} by {strongest[0]}"
            return self.reason.value
        if self.reason is Reason.ARCHIVED:
            link = "superseded by"
        else:
            link = "of"
        return f"{self.reason.value} {link} {self.same_as}"


@dataclass(frozen=True, slots=True)
class SectionUse:
    """Tokens that one section takes of a context, framing included, and its number of items."""

    used: int
    items: int


class SourceStatus(StrEnum):
    """The outcome of asking a source."""

    OK = "ok"
    DEGRADED = "degraded"
    """It proposed without a part that failed, such as the strategy that shortens a history."""
    FAILED = "failed"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The status of one attached source for a context.

    Attributes:
        proposed: Number of units that it offered.
        error: Type of the error that it raised, "" for none.
    """

    status: SourceStatus
    proposed: int = 0
    error: str = ""

    def __str__(self) -> str:
        said = str(self.status)
        if self.error:
            said += f" with {self.error}"
        if self.status in (SourceStatus.OK, SourceStatus.DEGRADED):
            said += f", {self.proposed:,} proposed"
        return said


@dataclass(frozen=True, kw_only=True, repr=False)
class Context(AssembledTurn):
    """The content that an agent sees in one turn.

    Of a window, `items` are the visible items that the session holds live, then the items that this
    turn appended.

    Attributes:
        text: For the format "text".
        messages: For formats of messages.
        system: Beside the messages, for "anthropic", "bedrock" and "gemini".
        used: Tokens of the output, framing included.
        budget: The tokens that it was packed into, without the reserve.
        items: In the order in which they are shown.
        by_section: Tokens and items by section, in order of declaration. With `frame`, the tokens
            of no section, they add up to `used`.
        sources: Status of each attached source, by name.
        window, epoch: The name of the window that it continues, and how often that was packed anew;
            "" and 0 without one.
        rebased: Why the window was packed anew (see `RebaseReason`), None if it was continued.
        prefix_tokens: Tokens of the previous request, which this one begins with.
        appended: Tokens that this turn appended.
        cache_breakpoints: Indexes of messages where a provider's cache marker pays, at most four.
        notices: Sentences on what could not be answered: a section or source that a filter can't be
            compared with; on thinking that a window leaves out; and on an item larger than the
            window that has more of the query's words than what is shown.
        tools: The tools of the call, as they were given.
        before: The items of the turn before in the same window, or of the last one without a
            window; None if no turn is kept.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> added = memory.add("role", "You are a careful analyst.")
    >>> added = memory.add("messages", "Who owns the deal?")
    >>> context = await memory.assemble_context(budget=100, format="openai")
    >>> [message["role"] for message in context.messages]
    ['system', 'user']
    >>> context.used <= context.budget
    True
    """

    rendered: Rendered
    cache_breakpoints: tuple[int, ...] = ()
    tools: tuple[Any, ...] = ()
    _format: Format = field(compare=False)
    _counter: TokenCounter = field(compare=False)
    _credits: Callable[[Collection[Item], Collection[Item]], None] | None = field(
        default=None, compare=False
    )

    def __repr__(self) -> str:
        sections = [f"{name} {use.items:,}" for name, use in self.by_section.items() if use.items]
        held = comma_list(sections, 3) or "empty"
        return f"<Context {self.format}: {self.used:,} of {self.budget:,} tokens; {held}>"

    @property
    def text(self) -> str:
        """Return the context as one text; formats of messages have none."""
        if self.rendered.text is None:
            raise AttributeError(
                f"a context in format {self.format!r} has messages, not text; ask for format='text'"
            )
        return self.rendered.text

    @property
    def messages(self) -> list[Any]:
        """Return the context as the provider's messages, each a dict; the format "text" has none.

        These are the items of "openai-responses" and the contents of "gemini". The type of an
        element is open, so that each SDK takes the list as its own messages.
        """
        if self.rendered.messages is None:
            raise AttributeError(
                f"a context in format {self.format!r} has text, not messages; ask for "
                "format='openai'"
            )
        return self._sent

    @cached_property
    def _sent(self) -> list[Any]:
        """The messages as the SDK takes them: those of Bedrock with bytes."""
        messages = self.rendered.messages or []
        sent: Callable[[list[Any]], list[Any]] | None = getattr(self._format, "sent", None)
        if sent is None:
            return messages
        return sent(messages)

    @property
    def chat_messages(self) -> list[ChatMessage]:
        """Return the request as neutral messages, for frameworks with message types of their own.

        The system message is the first, if there is one. In the format "blocks" they hold all that
        is stored: thinking, errors and images, and each result has its tool's name. In another
        format they hold what that format can say.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add("role", "You are a careful analyst.")
        >>> added = memory.add("messages", "Who owns the deal?")
        >>> context = await memory.assemble_context(budget=100, format="blocks")
        >>> [message.role for message in context.chat_messages]
        ['system', 'user']
        """
        if self.rendered.messages is None:
            raise AttributeError(
                f"a context in format {self.format!r} has text, not messages; ask for "
                "format='blocks'"
            )
        return read_messages(self.rendered, self._format)

    @property
    def system(self) -> str:
        """Return the system prompt beside the messages: the call's, then the static sections.

        The formats "anthropic", "bedrock" and "gemini" have one.
        """
        if self.rendered.system is None:
            if self.rendered.messages is None:
                where = "at the beginning of its text"
            else:
                where = "in its first message"
            raise AttributeError(
                f"a context in format {self.format!r} has no system prompt of its own: it is "
                f"{where}"
            )
        return self.rendered.system

    def render(self, *, cache: bool = False) -> dict[str, Any]:
        """Return the request as arguments of the provider's SDK: messages, system prompt, tools.

        Args:
            cache: Set the cache marks of Anthropic and Bedrock: at the end of the system prompt,
                and in a window where its next request will hit. Other providers need none.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add("messages", "Who owns the deal?")
        >>> context = await memory.assemble_context(
        ...     budget=500, format="anthropic", window="main", system="Be brief."
        ... )
        >>> request = context.render(cache=True)
        >>> request["system"][0]["cache_control"], request["messages"][0]["content"][0]["text"]
        ({'type': 'ephemeral'}, 'Who owns the deal?')
        """
        if self.rendered.messages is None:
            return {"prompt": self.text}
        marks = self.cache_breakpoints if cache else None
        parts = RequestParts(self.messages, self.rendered.system or "", self.tools, marks)
        return request_arguments(self.format, parts)

    def credit(
        self,
        reply: object = "",
        *,
        ids: Iterable[str] = (),
        confirmed: bool = False,
    ) -> list[Credit]:
        """Count the shown items that the reply used, and return them with the reasons.

        A reply uses an item if both share a quote (three words in a row, without stop words), a
        name or a number that neither the question nor another shown item has. The next save stores
        the counts. Each item counts once a turn, so the call may be repeated. Items that were
        forgotten meanwhile are not counted.

        Args:
            reply: The reply as a text, or as a message of the context's format.
            ids: Items that were used by the caller's word, such as by the citations of the reply.
            confirmed: A person has confirmed the items of `ids`: they count as verified today.

        Raises:
            NotFoundError: If an id is not that of a shown item.
            InvalidArgumentError: If there is neither a reply nor an id, or if the context is a view
                of another time or a rehearsal.
            ReadOnlyError: If the session cannot be changed.

        >>> from kaosmem import SessionMemory
        >>> memory = SessionMemory.test_mode()
        >>> added = memory.add_many("findings", ["The notice is thirty days.", "Ann likes tea."])
        >>> context = await memory.assemble_context("How can I end the contract?", budget=100)
        >>> print(*context.credit("You can end it, the notice is thirty days."))
        The notice is thirty days. (quote 'notice is thirty days')
        """
        if self._credits is None:
            raise InvalidArgumentError(
                "only a context that SessionMemory.assemble_context returned can be credited; this "
                "one is a view of another time, a rehearsal, or was packed without a session"
            )
        by_id = {item.id: item for item in self.items}
        named = []
        for item_id in dict.fromkeys(check_collection(ids, "ids")):
            if item_id not in by_id:
                raise NotFoundError(
                    f"the context shows no item {shown(item_id)}; its items are context.items"
                )
            named.append(by_id[item_id])
        if isinstance(reply, str):
            text = reply
        else:
            text = parse_message(reply, self._format).text
        if not named and not text.strip():
            raise InvalidArgumentError("there is nothing to credit; give the reply, or ids=[...]")
        found = [Credit(item, CLAIMED_BY_CALLER) for item in named]
        uses = find_uses(text, self.query, self.items)
        found += [each for each in uses if each.item not in named]
        self._credits([each.item for each in found], named if confirmed else ())
        return found
