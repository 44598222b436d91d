"""SectionSpec: how a section is kept, budgeted and shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from kaosmem.arguments import MAX_INTEGER, check_instance, check_list_of, is_integer, is_number
from kaosmem.errors import InvalidArgumentError, UnsupportedVersionError
from kaosmem.formats.labels import DATES, Dates, LabelStyle
from kaosmem.names import check_name, name_hint, shown, shown_name
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.eviction import POLICIES, EvictionPolicy
from kaosmem.sections.retention import RetentionPolicy

if TYPE_CHECKING:
    from kaosmem.compaction import CompactionStrategy
    from kaosmem.formation import FormsFrom
    from kaosmem.types import JSONDict, JSONObject

PLACEMENTS = ("static", "history", "query")
PERSISTENCE = ("stream", "none")
_UNSTORED = ("ranker", "compaction", "forms_from", "retention")  # which the application gives anew
MAX_SECTIONS = 10_000
"""How many sections a session may have: each takes kilobytes of memory, whatever it holds."""


@dataclass(frozen=True)
class SectionSpec:
    """The fixed properties of a section.

    Raises InvalidNameError for the name, and InvalidArgumentError for the rest.

    Attributes:
        budget: Tokens that the section may hold and take of a window. None is unbounded.
        priority: Sections with a higher priority are served first in a window and trimmed last.
        floor: Share of the window, 0 to 1, that is reserved for the section.
        placement: `static` (the system message), `history` (the newest messages) or `query` (the
            last block).
        eviction: How the section makes room: the name of a policy of kaosmem, or an
            `EvictionPolicy` of your own.
        retrieval_threshold: With more items than this, the query always ranks them. With fewer, it
            ranks them unless all sections surely fit the window together and nothing was evicted;
            then the newest come first.
        recent: Number of newest units that come before the ranked ones.
        recall: Share of its cap for earlier messages and evicted items that match the query. The
            best evicted match of a `query` section may take more if it needs more. In a history
            that is cut, this share is reserved; the newest messages take the part of it that no
            earlier message needs.
        persistence: `stream` (a record for each change) or `none`.
        in_context: Whether the section is ever shown.
        compaction: Shortens the section before it is shown, once its items exceed its budget. Until
            then `add` evicts nothing. Items that still do not fit are evicted. Replaced items are
            in the archive, and may be recalled.
        header: The title in the context. The default is the name. "" makes a static section
            verbatim: the application's own texts stand there without header and label, unescaped,
            before all other static sections. White space around a text goes. A text that is trusted
            less, or of another role than system, keeps its label.
        provenance: Shows the trust of each item in its label. A history shows it only for recalled
            messages.
        corrections: Show an item only together with later items that give its subject another
            value, if they are of the same speaker or source. The last of them is marked as newer.
        min_score: Percent of the score of its best match, 0 to 100, that a retrieved item must
            have. The default leaves out only items that nothing in the question speaks for, unless
            the section fits whole.
        dates: The day that labels show: `timestamp` (of the item's metadata), `created_at` (when
            the item was added, if it has no timestamp) or `none`.
        last_verified: Show "last verified" and the day with old formed facts of a kind that changes
            often (see `kaosmem.formation.aging`).
        forms_from: Forms the section from others beside the turns (see `kaosmem.formation`). Only
            for the placement `query`.
        retention: Archives or erases items when the block of the session ends.

    >>> spec = SectionSpec("decisions", budget=4_000, priority=80)
    >>> spec.placement, spec.eviction
    ('query', 'fifo')
    >>> from kaosmem import DEFAULT_SECTIONS, SessionMemory
    >>> memory = SessionMemory.test_mode(sections=(*DEFAULT_SECTIONS, spec))
    >>> memory["decisions"].budget
    4000
    """

    name: str
    budget: int | None = None
    priority: int = 0
    floor: float = 0.0
    placement: Literal["static", "history", "query"] = "query"
    eviction: str | EvictionPolicy = "fifo"
    retrieval_threshold: int = 20
    recent: int = 0
    recall: float = 0.25
    persistence: Literal["stream", "none"] = "stream"
    max_items: int | None = None
    in_context: bool = True
    ranker: Ranker | None = None
    header: str | None = None
    provenance: bool = False
    dates: Dates = "timestamp"
    corrections: bool = True
    compaction: CompactionStrategy | None = None
    min_score: float = 0.0
    last_verified: bool = True
    forms_from: FormsFrom | None = None
    retention: RetentionPolicy | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "section")
        self._check_fields()
        self._check_header()
        self._check_policy()
        if self.compaction is not None:
            self._check_compaction()
        if self.forms_from is not None:
            self._check_formation()
        if self.retention is not None:
            check_instance(self.retention, RetentionPolicy, f"retention of section {self.name!r}")

    def _check_fields(self) -> None:
        for field, (is_valid, remedy) in _FIELDS.items():
            self._require(field, is_valid(getattr(self, field)), remedy)
        for field, names in _NAMED.items():
            self._require_name(field, names)
        if self.ranker is not None:
            check_instance(self.ranker, Ranker, f"ranker of section {self.name!r}")

    def _check_header(self) -> None:
        self._require(
            "header",
            self.header in (None, "") or (_is_text(self.header) and self.header.isprintable()),
            'one line of text, None for the name, or "" for none in a static section',
        )
        if self.header == "":
            self._require("placement", self.placement == "static", "'static' with the header \"\"")
            self._require(
                "provenance",
                not self.provenance,
                'False with the header "", which leaves labels out',
            )

    def _require(
        self,
        field: str,
        valid: bool,
        remedy: str,
    ) -> None:
        if not valid:
            given = shown_name(getattr(self, field))
            raise InvalidArgumentError(f"section {self.name!r} has {field} {given}; use {remedy}")

    def _require_name(
        self,
        field: str,
        names: Iterable[str],
        others: str = "",
    ) -> None:
        given = getattr(self, field)
        if given not in names:
            raise InvalidArgumentError(
                f"section {self.name!r} has {field} {shown_name(given)}; "
                f"{name_hint(given, names)}{others}"
            )

    def _check_formation(self) -> None:
        sections = getattr(self.forms_from, "sections", None)
        self._require("forms_from", isinstance(sections, tuple), "a FormsFrom")
        self._require("placement", self.placement == "query", "'query' with forms_from")
        self._require("name", self.name not in (sections or ()), "another section in forms_from")

    def _check_compaction(self) -> None:
        is_strategy = not isinstance(self.compaction, type) and callable(
            getattr(self.compaction, "compact", None)
        )
        self._require("compaction", is_strategy, "a CompactionStrategy")
        self._require(
            "placement", self.placement != "static", "'history' or 'query' with a compaction"
        )
        self._require(
            "budget",
            self.budget is not None,
            "a number of tokens with a compaction, which it calls for",
        )
        self._require(
            "eviction",
            self.policy.name != "refuse",
            "a policy that evicts, or 'none', with a compaction",
        )

    def _check_policy(self) -> None:
        """Check that the policy is known or has a name of its own, and keeps `max_items`."""
        if isinstance(self.eviction, EvictionPolicy):
            known = POLICIES.get(self.eviction.name, self.eviction)
            if known is not self.eviction:
                raise InvalidArgumentError(
                    f"section {self.name!r} has a policy of the name {self.eviction.name!r}, which "
                    "kaosmem has too; "
                    "rename it"
                )
        else:
            self._require_name("eviction", (*POLICIES,), ", or an EvictionPolicy")
        if self.max_items is not None and not self.policy.bounded:
            raise InvalidArgumentError(
                f"section {self.name!r} has max_items, but eviction {self.policy.name!r} makes no "
                "room; choose a "
                "policy that evicts, or 'refuse'"
            )

    @cached_property
    def policy(self) -> EvictionPolicy:
        """Return how the section makes room."""
        if isinstance(self.eviction, EvictionPolicy):
            return self.eviction
        return POLICIES[self.eviction]

    @cached_property
    def labels(self) -> LabelStyle:
        """Return the style of its items' labels."""
        is_grouped = self.placement != "static"
        return LabelStyle(self.dates, self.provenance, self.is_verbatim, is_grouped)

    @cached_property
    def recalls(self) -> bool:
        """Return whether evicted items of the section may be shown again."""
        return self.placement != "static" and self.recall > 0

    @cached_property
    def is_history(self) -> bool:
        """Return whether the section is a history: its newest messages are shown as they came."""
        return self.placement == "history"

    @cached_property
    def is_verbatim(self) -> bool:
        """Return whether the application's own texts are shown as they are."""
        return self.header == ""

    @cached_property
    def title(self) -> str:
        """Return the text of the section's header."""
        return self.header or self.name

    def to_dict(self) -> JSONDict:
        """Return the spec as JSON values, with the name of its policy.

        Ranker and compaction are left out.
        """
        return dict(self._stored)

    @cached_property
    def _stored(self) -> JSONObject:
        """The result of `to_dict`, which each save compares."""
        stored = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in _UNSTORED
        }
        return {**stored, "eviction": self.policy.name}

    @classmethod
    def from_dict(cls, stored: JSONObject, *, ranker: Ranker | None = None) -> SectionSpec:
        """Return the spec that `to_dict` stored.

        Without its own policy, which is not stored, nothing is evicted.

        Raises UnsupportedVersionError for a field it does not know.
        """
        unknown = stored.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise UnsupportedVersionError(
                f"a stored section spec has the unknown field {shown(min(unknown))}; open it with "
                "a newer kaosmem"
            )
        if stored.get("eviction", "none") not in POLICIES:
            stored = {**stored, "eviction": "none", "max_items": None}
        return cls(**stored, ranker=ranker)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _is_bound(value: object) -> bool:
    return value is None or _is_count(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_share(value: Any, most: int = 1) -> bool:
    return is_number(value) and 0 <= value <= most


_FLAG = (_is_flag, "True or False")
_SHARE = (_is_share, "a number from 0 to 1")
_COUNT = (_is_count, "a whole number from 0 up")
_NAMED = {"placement": PLACEMENTS, "persistence": PERSISTENCE, "dates": DATES}
"""The names that a field takes."""
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "budget": (_is_bound, "a whole number of tokens from 0 up, or None for no bound"),
    "in_context": _FLAG,
    "provenance": _FLAG,
    "corrections": _FLAG,
    "last_verified": _FLAG,
    "floor": _SHARE,
    "recall": _SHARE,
    "retrieval_threshold": _COUNT,
    "recent": _COUNT,
    "min_score": (partial(_is_share, most=100), "a number from 0 to 100"),
    "priority": (is_integer, "a whole number within 64 bits"),
    "max_items": (
        lambda value: _is_bound(value) and value != 0,
        "a whole number from 1 up, or None for no bound",
    ),
}
"""A check of each field alone, and the values that it takes, in words."""


def renamed(spec: SectionSpec, name: str) -> SectionSpec:
    """Return a spec under another name, shown under the title that it had."""
    header = spec.name if spec.header is None else spec.header
    if spec.name == name:
        return spec
    return replace(spec, name=name, header=header)


def check_specs(specs: Iterable[SectionSpec]) -> dict[str, SectionSpec]:
    """Return specs by name, in order.

    Raises InvalidArgumentError for a value that is no spec, a repeated name, floors above 1 in sum,
    over MAX_SECTIONS.
    """
    by_name: dict[str, SectionSpec] = {}
    for spec in check_list_of(specs, SectionSpec, "sections"):
        if spec.name in by_name:
            raise InvalidArgumentError(f"two sections are named {spec.name!r}; rename one")
        by_name[spec.name] = spec
    if len(by_name) > MAX_SECTIONS:
        raise InvalidArgumentError(
            f"there are {len(by_name)} sections and may be {MAX_SECTIONS}; tell items apart by "
            "metadata"
        )
    floors = math.fsum(spec.floor for spec in by_name.values())
    if floors > 1 + 1e-9:  # tenths do not add up exactly
        raise InvalidArgumentError(
            f"the sections' floors add up to {floors:g} of the window; lower them to 1 or less"
        )
    return by_name


PROPOSALS_SECTION = SectionSpec("formation.proposals", eviction="none", in_context=False)
"""The section of formed items that wait for a person. It comes with the first one."""
