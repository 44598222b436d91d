"""The receipt of an erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kaosmem.arguments import json_text
from kaosmem.errors import InvalidArgumentError, KaosmemError
from kaosmem.persistence.erasure import Erasure
from kaosmem.types import JSONDict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

OldVersions: TypeAlias = Literal["none", "kept", "unknown"]

OLD_VERSIONS: Mapping[bool | None, OldVersions] = {False: "none", True: "kept", None: "unknown"}
"""The field of a receipt, by whether the storage keeps old versions of its files."""


@dataclass(frozen=True, kw_only=True)
class ErasureReceipt:
    """The receipt of an erasure.

    `SessionMemory.forget` returns it, and `memory.admin.verify` checks it later.

    It names ids and holds no text and no digest of a text: a digest of a short text can be guessed,
    with a key too by all holders of the key. If your ids tell something about a person, keep the
    receipt as private as the item was.

    Attributes:
        items: The ids that `forget` was given.
        derived: The ids of items that were made from these.
        finished: The ids of items whose erasure an earlier call or another writer had begun, and
            this call finished.
        windows: The names of windows that showed one.
        sources: The erased ids by the name of the attached source.
        files: The session's files that were deleted, because they were written before the erasure.
        log_id: The session's log.
        record: The last record of the log at the erasure.
        checksum: The checksum of that record.
        old_versions: Whether the storage keeps old versions of deleted files: "none", "kept", or
            "unknown" if it does not tell. Kept versions hold the erased texts until you delete
            them, or a lifecycle rule does.
        at: The time of the erasure. No erased item is newer.
        created_at: The times when the erased items were created, by id, as far as this call erased
            them. A later item of an erased id has another time, so `verify` tells the two apart
            though the clocks of two machines differ.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("findings", "The account is DE89 3704 0044.", id="account")
    >>> receipt = await memory.forget("account")
    >>> receipt.items, receipt.record
    (('account',), 3)
    >>> ErasureReceipt.from_dict(receipt.to_dict()) == receipt
    True
    """

    session_id: str
    namespace: str
    at: datetime
    log_id: str
    record: int
    checksum: str
    items: tuple[str, ...]
    derived: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    created_at: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    old_versions: OldVersions = "unknown"

    @property
    def erasure(self) -> Erasure:
        """The erasure as the session's log has it."""
        ids = *self.items, *self.derived, *self.finished
        return Erasure(
            self.log_id, self.record, self.checksum, frozenset(ids), self.at, self.created_at
        )

    def to_dict(self) -> JSONDict:
        """Return the receipt as JSON values."""
        stored: JSONDict = _adapter().dump_python(self, mode="json")
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ErasureReceipt:
        """Return the receipt that `to_dict` returned.

        A receipt without `created_at` and `old_versions` has no times and says "unknown".

        Raises:
            InvalidArgumentError: If the value is not the value of a receipt.
        """
        try:
            receipt = _adapter().validate_json(json_text(stored), strict=True)
        except (KaosmemError, TypeError, ValueError):
            receipt = None
        if receipt is None or not receipt._has_zones():
            raise InvalidArgumentError(
                "this is no receipt of an erasure; give the value that to_dict() returned"
            )
        return receipt

    def _has_zones(self) -> bool:
        times = [self.at]
        for created_at in self.created_at.values():
            times += created_at
        return all(time.tzinfo is not None for time in times)


@cache
def _adapter() -> TypeAdapter[ErasureReceipt]:
    from pydantic import TypeAdapter  # few sessions store a receipt

    return TypeAdapter(ErasureReceipt)
