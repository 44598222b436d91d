"""A state machine: the session log on a filesystem against a plain model."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from operator import mul
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from kaosmem.errors import ConflictError
from kaosmem.persistence.files.records import FORMAT_VERSION, TXNS_KEPT, Change, Record
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.recovery import Recovered
from kaosmem.persistence.storage.places import Location, list_sessions
from kaosmem.testing.erasure import paths_holding
from tests.persistence.storage_machine import PlaceMachine

Version: TypeAlias = tuple[str, dict[str, Any]]
"""A section, and one of an item's versions there: its `id`, and an `n` that no other version has."""


@dataclass
class PlainSession:
    """The acknowledged changes of a session.

    changes: all that were committed; the first is record 1.
    archived: the newest record after which a snapshot was stored.
    purged: the newest record after which something was forgotten, 0 for none.
    """

    changes: list[Change] = field(default_factory=list)
    archived: int = 0
    purged: int = 0

    @property
    def seq(self) -> int:
        """Return the number of the last record."""
        return len(self.changes)

    def live(self, seq: int | None = None) -> list[Version]:
        """Return the items after record `seq`, None for the last, in order."""
        return [*self._replayed(seq)[0].values()]

    def left(self, *, after: int = 0, until: int | None = None) -> list[Version]:
        """Return the versions that were removed or replaced by these records, in order, but for forgotten items'."""
        return [version for seq, version in self._replayed(until)[1] if seq > after]

    def change(self, op: str, item_id: str, version: dict[str, Any]) -> Change:
        """Return a change that makes sense now: a new item is added, a known one updated or removed."""
        live = {data["id"]: section for section, data in self.live()}
        if item_id not in live:
            return Change("messages" if version["n"] % 2 else "findings", "add", version)
        return Change(live[item_id], op, version if op == "update" else {"id": item_id})

    def is_record(self, record: Record) -> bool:
        """Return whether a stored record equals the record acknowledged under its number."""
        change = self.changes[record.seq - 1]
        return (record.section, record.op, record.data) == (change.section, change.op, change.data)

    def _replayed(self, seq: int | None) -> tuple[dict[str, Version], list[tuple[int, Version]]]:
        live: dict[str, Version] = {}
        left: list[tuple[int, Version]] = []
        for number, change in enumerate(self.changes[:seq], 1):
            item_id: Any = change.data.get("id")
            match change.op:
                case "add":
                    live[item_id] = change.section, dict(change.data)
                case "update":
                    left.append((number, live[item_id]))
                    live[item_id] = change.section, dict(change.data)
                case "remove":
                    left.append((number, live.pop(item_id)))
                case "forget":
                    live.pop(item_id, None)
                    left = [(at, version) for at, version in left if version[1]["id"] != item_id]
        return live, left


_MOST_WRITERS = 4
_IDS = ("a", "A", "é", "e\u0301", "日本 🙂", '","id":"a', "../\\ ")

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
_ids = st.sampled_from(_IDS)
# Those of more than 64 KiB have a file of their own.
_texts = st.builds(mul, st.sampled_from(["", "short ", "größe ☃ "]), st.sampled_from([1, 12_000]))
_wishes = st.tuples(_ids, st.sampled_from(["update", "remove"]), _texts, _values)
_indices = st.integers(0, _MOST_WRITERS - 1)

Wish = tuple[str, str, str, Any]
"""An item's id, the change to make if it is known, and a text and anything to be kept with it."""


@dataclass
class Writer:
    """One handle of the session, and its caller's knowledge.

    ends: the last record of each commit since the snapshot that the handle knows of, that one's
        included.
    archived: up to which record it knows that what left the session is in the archive.
    """

    log: SessionLog
    ends: list[int] = field(default_factory=list)
    archived: int = 0


class SessionLogMachine(PlaceMachine):
    """Commits, snapshots, kills and forgetting by several writers lose nothing, over any `place`.

    torn: whether a part of a commit stands at the log\'s end.
    """

    session_id = "Deal-42:a."
    where: Location
    account: PlainSession
    torn = False

    @initialize()
    def begin(self) -> None:
        self.where = self.place()
        self.account = PlainSession()
        self._versions = count(1)
        self._forgotten: list[str] = []
        self._writers: list[Writer] = []
        self.open_another()
        self._commit(self._writers[0], [Change("", "open", {"version": FORMAT_VERSION})])

    @rule(writer=_indices, wishes=st.lists(_wishes, min_size=1, max_size=4))
    def commit(self, writer: int, wishes: list[Wish]) -> None:
        """Commit: acknowledged if the writer has seen all other commits, else refused."""
        self._commit(self._writer(writer), self._changes(wishes))

    @rule(writer=_indices, ids=st.lists(_ids, min_size=15, max_size=33))
    def commit_often(self, writer: int, ids: list[str]) -> None:
        """Commit so often that small commits are rolled up."""
        for each in ids:
            self._commit(self._writer(writer), self._changes([(each, "update", "", None)]))

    @rule(writer=_indices)
    def catch_up(self, writer: int) -> None:
        """Catch up, which tells of every commit since, once."""
        self._catch_up(self._writer(writer))

    @rule(writer=_indices, end=st.integers(0, 9))
    def snapshot(self, writer: int, end: int) -> None:
        """Store the state after any commit since the last snapshot, while others commit and store theirs."""
        each = self._writer(writer)
        seq = each.ends[-1 - end % len(each.ends)]
        left = self.account.left(after=each.archived, until=seq)
        try:
            stored = each.log.snapshot({"seq": seq}, self.account.live(seq), archived=left, seq=seq)
        except ConflictError:
            assert seq <= self.account.archived, (
                "a snapshot of the newest state was refused"
            )  # its log is gone
            return
        assert stored == (seq > self.account.archived)
        if stored:
            self.account.archived = each.archived = seq
            each.ends = [known for known in each.ends if known >= seq]

    @rule(writer=_indices, item_id=_ids)
    def forget(self, writer: int, item_id: str) -> None:
        """Forget an item: no file has it afterwards, of any writer."""
        each = self._writer(writer)
        session = self.account
        versions = [change.data for change in session.changes if change.data.get("id") == item_id]
        self._forgotten += [data["mark"] for data in versions if "mark" in data]
        self._commit(each, [Change("", "forget", {"id": item_id})])
        kept = {
            data["n"]: (section, data)
            for section, data in each.log.archive()
            if data["id"] != item_id
        }
        kept |= {data["n"]: (section, data) for section, data in session.left(after=each.archived)}
        archived = [kept[number] for number in sorted(kept)]
        each.log.purge({"seq": session.seq}, session.live(), archived=archived)
        session.purged = session.archived = each.archived = session.seq
        each.ends = [session.seq]
        self._check_forgotten()

    @precondition(lambda self: len(self._writers) < _MOST_WRITERS)
    @rule()
    def open_another(self) -> None:
        """Open the session once more, and read it."""
        self._writers.append(self._opened())

    @rule(writer=_indices)
    def kill(self, writer: int) -> None:
        """Let a writer go without a word."""
        del self._writers[writer % len(self._writers)]
        if not self._writers:
            self.open_another()

    @rule(writer=_indices)
    def close(self, writer: int) -> None:
        """Close a writer and open another."""
        self._writers.pop(writer % len(self._writers)).log.close()
        self.open_another()

    @invariant()
    def what_is_stored_is_what_was_acknowledged(self) -> None:
        """Read exactly the acknowledged records in a session opened anew."""
        if not hasattr(self, "where"):
            return
        where = self.reopened(self.where)
        session = self.account
        log, recovered = SessionLog.open(where, self.session_id, read_only=True)
        self._check(recovered)
        assert log.seq == session.seq, (
            f"the log ends at record {log.seq}, and {session.seq} were acknowledged"
        )
        assert len({*log.txns}) == len(log.txns), "a commit is counted twice"
        archived = session.left(until=session.archived)
        found = {data["n"]: (section, data) for section, data in log.archive()}
        expected = sorted(archived, key=lambda each: each[1]["n"])
        assert [found[number] for number in sorted(found)] == expected, (
            "the archive differs from the items that left the session"
        )
        newest = {version[1]["id"]: version for version in archived}
        for item_id in _IDS:
            assert log.archived(item_id) == newest.get(item_id), (
                f"an older version of {item_id!r} is archived"
            )
        assert list_sessions(where) == [self.session_id]
        log.close()

    def _opened(self) -> Writer:
        log, recovered = SessionLog.open(self.reopened(self.where), self.session_id)
        return Writer(log, [log.seq] if log.seq else [], self._check(recovered))

    def _writer(self, index: int) -> Writer:
        return self._writers[index % len(self._writers)]

    def _changes(self, wishes: list[Wish]) -> list[Change]:
        """Return changes that make sense one after the other."""
        session = PlainSession([*self.account.changes])
        for item_id, op, text, value in wishes:
            number = next(self._versions)
            mark = f"version-{number:08d}"
            # In the text too: or two versions would share the file of a long one.
            version = {
                "id": item_id,
                "n": number,
                "mark": mark,
                "text": text and f"{mark} {text}",
                "value": value,
            }
            session.changes.append(session.change(op, item_id, version))
        return session.changes[self.account.seq :]

    def _commit(self, writer: Writer, changes: list[Change]) -> None:
        if writer.log.seq != self.account.seq:
            self._expect_refusal(writer, changes)
        writer.log.commit(changes)
        self.torn = False
        self.account.changes += changes
        assert writer.log.seq == self.account.seq
        writer.ends.append(writer.log.seq)

    def _expect_refusal(self, writer: Writer, changes: list[Change]) -> None:
        """Commit without having seen all, which is refused; then see it."""
        try:
            writer.log.commit(changes)
        except ConflictError:
            try:
                self._catch_up(writer)
            except ConflictError:
                behind = self.account.seq - writer.log.seq
                assert behind >= TXNS_KEPT, (
                    f"nobody can tell of a commit {behind} records ago whether it took effect"
                )
                vars(writer).update(vars(self._opened()))
        else:
            raise AssertionError(
                f"a commit after record {writer.log.seq} was acknowledged to who had not seen all "
                "before"
            )

    def _catch_up(self, writer: Writer) -> None:
        before = writer.log.seq
        log_changes = writer.log.catch_up()
        assert not log_changes.is_settled
        recovered = log_changes.recovery.recovered
        if log_changes.is_whole:
            writer.archived = self._check(recovered)
            writer.ends = [self.account.seq]
        else:
            self._check_records(recovered, after=before)
            writer.ends.append(self.account.seq)
        writer.log.adopt(log_changes)
        assert writer.log.seq == self.account.seq

    def _check(self, recovered: Recovered) -> int:
        """Compare the session read with the account, and return the number of the used snapshot's record."""
        base = int((recovered.header or {}).get("seq", 0))
        assert bool(recovered.damage) == self.torn, (
            f"reported as damage: {[*map(str, recovered.damage)]}"
        )
        assert base >= self.account.purged, (
            f"the snapshot of record {base} is from before something was forgotten"
        )
        is_same = recovered.items == (self.account.live(base) if base else [])
        assert is_same, f"the snapshot of record {base} has other items than were stored"
        self._check_records(recovered, after=base)
        return base

    def _check_records(self, recovered: Recovered, *, after: int) -> None:
        read = [record.seq for record in recovered.records]
        acknowledged = [*range(after + 1, self.account.seq + 1)]
        assert read == acknowledged, f"records {read} were read, {acknowledged} were acknowledged"
        assert all(map(self.account.is_record, recovered.records)), (
            "a record differs from the acknowledged one"
        )

    def _check_forgotten(self) -> None:
        found = paths_holding(self.reopened(self.where), *self._forgotten)
        assert not found, f"{found} hold a forgotten text"
