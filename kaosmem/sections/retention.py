"""RetentionPolicy: on which conditions items of a section go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kaosmem.arguments import check_count, check_instance, check_list_of
from kaosmem.errors import InvalidArgumentError
from kaosmem.sections.ledger import Ledger
from kaosmem.types.items import Item


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy:
    """The conditions on which items go. An item goes if it meets all that are given.

    Attributes:
        older_than: Age, from when the item was added or happened, whichever is later.
        unused_for: Time since the last use by a reply (see `Context.credit`), the last verification
            or the begin of its age, whichever is latest.
        kinds: Values of `metadata["kind"]`, such as "episodic". The default is all items.
        max_tokens: Live items go only as far as the section holds more tokens, the least important
            first, then the oldest.
        erase: Erase the items, with all that is derived from them, archived versions included. The
            default moves live items to the archive, where `fetch` finds them and no context does.

    Raises:
        InvalidArgumentError: If there is no condition, or one is not valid.

    >>> from kaosmem import SectionSpec
    >>> policy = RetentionPolicy(unused_for=timedelta(days=90), kinds=("episodic",))
    >>> SectionSpec("episodes", retention=policy).retention.erase
    False
    """

    older_than: timedelta | None = None
    unused_for: timedelta | None = None
    kinds: tuple[str, ...] = ()
    max_tokens: int | None = None
    erase: bool = False

    def __post_init__(self) -> None:
        spans = [span for span in (self.older_than, self.unused_for) if span is not None]
        for span in spans:
            if check_instance(span, timedelta, "a time") <= timedelta():
                raise InvalidArgumentError("older_than and unused_for are times above 0")
        if self.max_tokens is not None:
            check_count(self.max_tokens, "max_tokens")
        kinds = tuple(check_list_of(self.kinds, str, "kinds"))
        object.__setattr__(self, "kinds", kinds)
        if not spans and not kinds and self.max_tokens is None:
            raise InvalidArgumentError(
                "the policy has no condition, so that all items would go; give older_than, "
                "unused_for, kinds or max_tokens"
            )

    def is_due(
        self,
        item: Item,
        ledger: Ledger,
        now: datetime,
    ) -> bool:
        """Return whether an item meets all conditions but that on the size of the section.

        A clock that is behind makes items younger, so that they stay.
        """
        age = now - age_begin(item)
        used = ledger.used_at.get(item.id, item.created_at)
        verified = ledger.verified_at.get(item.id, item.created_at)
        idle = min(age, now - used, now - verified)
        is_old = self.older_than is None or age > self.older_than
        is_idle = self.unused_for is None or idle > self.unused_for
        is_of_kind = not self.kinds or item.metadata.get("kind") in self.kinds
        return is_old and is_idle and is_of_kind


def age_begin(item: Item) -> datetime:
    """Return when the age of an item begins: when it was added or happened, whichever is later."""
    return max(item.created_at, item.valid_from)
