"""Stored indexes: files derived from a session, ignored if they do not match it.

Such a file says after which commit it was made. It is read only where the log is known to hold that commit, so that
one of another session, of a log that was cut back, or from before something was forgotten is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from zlib import crc32

from kaosmem.errors import ConflictError, CorruptionError
from kaosmem.persistence.checkpoint import purged_by
from kaosmem.persistence.commit import check_same_log, look
from kaosmem.persistence.layout import INDEX, index_file, index_numbers, surplus_indexes
from kaosmem.persistence.lines import decode_line, encode_line
from kaosmem.persistence.steps import Delete, Discard, Draft, List, Lock, Publish, Read, Steps
from kaosmem.persistence.tail import Head
from kaosmem.types import JSONValue

VERSION = 1
MAX_RANKERS = 3
"""A section keeps the indexes of so many rankers; the one written longest ago goes first."""
_CRC_BYTES = 4


def encode_index(
    section: str, header: Mapping[str, JSONValue], chunks: Iterable[bytes], *, seq: int, txn: str, ranker: str = ""
) -> Iterator[bytes]:
    """Yield an index file: a line that says what it is, the index, and the checksum of both.

    txn: the id of the commit whose last record is `seq`. ranker: name of the ranker that made the index.
    """
    stated = {"index": VERSION, "sec": section, "ranker": ranker, "seq": seq, "txn": txn}
    line, crc = encode_line({**stated, "d": header}, 0)
    yield line
    for chunk in chunks:
        crc = crc32(chunk, crc)
        yield chunk
    yield crc.to_bytes(_CRC_BYTES, "little")


def decode_index(
    data: bytes, section: str, *, seq: int, txn: str, ranker: str = ""
) -> tuple[dict[str, JSONValue], memoryview]:
    """Return the header of an index file and the index. Raises CorruptionError for any other file."""
    end = data.find(b"\n")
    fields, crc = decode_line(data[: max(0, end)], 0)
    header = fields.pop("d", None)
    fields.pop("crc")
    stated = {"index": VERSION, "sec": section, "ranker": ranker, "seq": seq, "txn": txn}
    if fields != stated or type(header) is not dict:
        raise CorruptionError("it is another index")
    index = memoryview(data)[end + 1 : -_CRC_BYTES]
    if crc32(index, crc).to_bytes(_CRC_BYTES, "little") != data[-_CRC_BYTES:] or end + _CRC_BYTES >= len(data):
        raise CorruptionError("the checksum does not fit")
    return header, index


def read_index(
    section: str, commits: Mapping[int, str], ranker: str
) -> Steps[tuple[dict[str, JSONValue], memoryview] | None]:
    """Return the header of a ranker's newest index of a section, made after one of these commits, and the index."""
    for seq in reversed(index_numbers((yield List(INDEX)), section, ranker)):
        if seq in commits:
            try:
                data = yield Read(index_file(section, seq, ranker))
                return decode_index(data, section, seq=seq, txn=commits[seq], ranker=ranker)
            except (CorruptionError, FileNotFoundError):
                continue
    return None


def indexed_records() -> Steps[list[int]]:
    """Return the records that index files are of."""
    return index_numbers((yield List(INDEX)))


def store_index(
    head: Head, section: str, chunks: Iterable[bytes], *, seq: int, sound: Collection[int], ranker: str = ""
) -> Steps[bool]:
    """Store a ranker's index of a section after record `seq`, and delete the indexes that it replaces.

    Returns whether it is stored: not where something was forgotten since, whose words it may hold.
    sound: snapshots from which the writer knows the forgotten items.
    Raises ConflictError if the log is no longer the one that `head` is of.
    """
    path = index_file(section, seq, ranker)
    if not (yield from _is_welcome(head, path, seq, sound)):
        return False
    draft = yield Draft(path, chunks)
    yield Lock(create=False)
    try:
        is_welcome = yield from _is_welcome(head, path, seq, sound)
    except (ConflictError, OSError):
        yield Discard(path, draft)
        raise
    if not is_welcome:
        yield Discard(path, draft)
        return False
    failure = None
    try:
        yield Publish(path, draft)
    except OSError as error:  # it may be there all the same
        failure = error
    is_welcome = yield from _is_welcome(head, path, seq, sound)  # where nothing locks
    if failure is not None:
        raise failure
    if is_welcome:
        for surplus in surplus_indexes((yield List(INDEX)), section, seq, ranker, rankers=MAX_RANKERS):
            yield Delete(surplus, at_once=True)
    return is_welcome


def _is_welcome(head: Head, path: str, seq: int, sound: Collection[int]) -> Steps[bool]:
    """Return whether an index may be stored: else none is under that path any more, whoever left it there.

    Raises ConflictError.
    """
    try:
        is_clean = yield from _is_clean(head, seq, sound)
    except (ConflictError, OSError):
        yield Delete(path, at_once=True)
        raise
    if not is_clean:
        yield Delete(path, at_once=True)
    return is_clean


def _is_clean(head: Head, seq: int, sound: Collection[int]) -> Steps[bool]:
    """Return whether nothing was forgotten since record `seq`. Raises ConflictError."""
    sight = yield from look(head)
    check_same_log(head, sight)
    newest = max(sight.snapshots, default=0)
    try:
        return newest in (0, *sound) or (yield from purged_by(newest)) <= seq
    except FileNotFoundError:  # another has taken its place
        return False
