"""The intact lines of a damaged file, confirmed by the checksums around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kaosmem.errors import CorruptionError
from kaosmem.persistence.lines import chained_crc, parse_object, stated_crc

_BEGINNING = re.compile(rb'\{"crc":"[0-9a-f]{8}",')
_STATEMENT = re.compile(rb'\{"crc":"[0-9a-f]{8}')
_CLAIM = re.compile(rb'.{18}"seq":([1-9][0-9]{0,17}),', re.DOTALL)
_PREFIX = 18
_SEEDS_KEPT = 8
_TRIES = 500_000
_TRIED_BEGINNINGS = 20


@dataclass(slots=True, eq=False)
class Fragment:
    """A line of a damaged file, or bytes that may be one.

    start, size: its bytes in the file. line: without what stands around it. fields: of the object that it is, else
    None. stated: its checksum as it says it, if that can be read. ends: a newline follows it.
    is_sound: checksums vouch for it. is_mended: its own checksum alone is damaged.
    """

    path: str
    start: int
    raw: bytes = field(repr=False)
    line: bytes = field(repr=False)
    fields: dict[str, Any] | None = field(repr=False)
    stated: int | None
    ends: bool
    is_sound: bool = False
    is_mended: bool = False

    @property
    def size(self) -> int:
        """Return how many bytes it takes, its newline included."""
        return len(self.raw) + self.ends

    @property
    def end(self) -> int:
        """Return where the next one begins."""
        return self.start + self.size

    @property
    def claimed_seq(self) -> int | None:
        """Return the number of the record that it says it is, true or not."""
        if self.fields is not None:
            seq = self.fields.get("seq")
            return seq if type(seq) is int and 0 < seq < 10**18 else None
        match = _CLAIM.match(self.line)
        return int(match[1]) if match else None


def fragments(data: bytes, path: str) -> list[Fragment]:
    """Return the lines of a file, those told apart that a damaged newline has made one."""
    found = []
    start = 0
    *lines, rest = data.split(b"\n")
    for line in lines:
        found += _pieces(line, start, path, ends=True)
        start += len(line) + 1
    return found + (_pieces(rest, start, path, ends=False) if rest else [])


def vouch(
    found: Iterable[Fragment],
    seeds: Collection[int] = (),
    *,
    stated_before: Callable[[Fragment], Iterable[int]] | None = None,
) -> None:
    """Mark the lines that the checksums around them vouch for.

    A line is sound if its checksum builds on the one that the line before it states, damaged or not, or, where it is
    the statement that is damaged, on the one that the line before it has; then that one is sound, too.
    seeds: what the first may build on. stated_before: what else a line may build on.
    """
    known: dict[int, tuple[Fragment, ...]] = dict.fromkeys(seeds, ())
    for fragment in found:
        also = stated_before(fragment) if stated_before else ()
        bases = {**dict.fromkeys(also, ()), **known}
        computed = {chained_crc(fragment.line, seed): held for seed, held in bases.items()}
        if fragment.fields is not None and fragment.stated in computed:
            for each in (fragment, *computed[fragment.stated]):
                each.is_mended, each.is_sound = not each.is_sound and each is not fragment, True
            known = {fragment.stated: ()}
            continue
        following: dict[int, tuple[Fragment, ...]] = {} if fragment.stated is None else {fragment.stated: ()}
        if fragment.fields is not None:
            following |= {crc: (*held, fragment) for crc, held in computed.items()}
        known = dict(islice((following | known).items(), _SEEDS_KEPT))


def vouch_anywhere(found: Sequence[Fragment]) -> None:
    """Mark lines whose checksums build on one that any line states, wherever: they stand in another's place."""
    stated = [fragment.stated for fragment in found if fragment.stated is not None]
    displaced = [each for each in found if not each.is_sound and each.fields is not None and each.stated is not None]
    if len(displaced) * len(stated) <= _TRIES:
        for fragment in displaced:
            fragment.is_sound = any(chained_crc(fragment.line, seed) == fragment.stated for seed in stated)


def lost_stretches(found: Iterable[Fragment], kept: Callable[[Fragment], bool]) -> Iterator[list[Fragment]]:
    """Yield the fragments that are not kept, those that follow one another in a file together."""
    stretch: list[Fragment] = []
    for fragment in found:
        if kept(fragment) or (stretch and stretch[-1].path != fragment.path):
            if stretch:
                yield stretch
            stretch = []
        if not kept(fragment):
            stretch.append(fragment)
    if stretch:
        yield stretch


def mended(fragment: Fragment) -> CorruptionError:
    """Return what is to be said of a line that only its own checksum is damaged of."""
    return CorruptionError(
        f"{fragment.path!r} is damaged at byte {fragment.start}: the checksum of a line, for which the one after it "
        "vouches, so that nothing is lost",
        file=fragment.path,
        byte=fragment.start,
        seq=fragment.claimed_seq if fragment.path.startswith("log/") else None,
    )


def _pieces(raw: bytes, start: int, path: str, *, ends: bool) -> list[Fragment]:
    """Return a line, or several that have become one: what in it is whole, and what stands between."""
    whole = _fragment(raw, start, path, ends=ends)
    if whole.fields is not None:
        return [whole]
    # Metadata may look like the beginning of a line, too.
    beginnings = [match.start() for match in _BEGINNING.finditer(raw)][:_TRIED_BEGINNINGS]
    found: list[Fragment] = []
    done = 0
    for at in beginnings:
        later = [other for other in beginnings if other > max(at, done)]
        for end in (*later, len(raw)) if at >= done else ():
            piece = _fragment(raw[at:end], start + at, path, ends=ends and end == len(raw))
            if piece.fields is not None:
                found += [_fragment(raw[done:at], start + done, path)] if at > done else []
                found.append(piece)
                done = end
                break
    if done < len(raw) or not found:
        found.append(_fragment(raw[done:], start + done, path, ends=ends))
    return found


def _fragment(raw: bytes, start: int, path: str, *, ends: bool = False) -> Fragment:
    line = raw
    fields = _parsed(line)
    if fields is None:
        line = raw[: raw.rfind(b"}") + 1]  # what follows may have been a newline
        fields = _parsed(line)
    if fields is None and len(line) > _PREFIX:  # what stands before may be damaged beyond being JSON
        fields = _parsed(b'{"crc":"00000000",' + line[_PREFIX:])
    stated = stated_crc(raw) if _STATEMENT.match(raw) else None
    return Fragment(path, start, raw, line or raw, fields, stated, ends)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        return parse_object(line)
    except CorruptionError:
        return None
