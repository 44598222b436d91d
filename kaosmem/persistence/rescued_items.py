"""The intact items of a damaged file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kaosmem.errors import CorruptionError
from kaosmem.persistence.fragments import Fragment, fragments, lost_stretches, mended, vouch, vouch_anywhere
from kaosmem.persistence.items import ItemFile, header_of, item_of
from kaosmem.persistence.records import stated_blobs


@dataclass(frozen=True, slots=True)
class RescuedItems:
    """The intact lines of a damaged file of items.

    file: with empty fields where its header is lost. lost: items that it lacks, None if nobody can tell.
    """

    file: ItemFile
    has_header: bool
    lost: int | None
    damage: list[CorruptionError]


def rescue_items(data: bytes, path: str, seq: int) -> RescuedItems:
    """Return what is intact of a file of items, `seq` by its name. Raises UnsupportedVersionError.

    A line that cannot be checked, as what stands before it is lost, is taken as it stands, and said.
    """
    found = fragments(data, path)
    vouch(found, [0])
    vouch_anywhere(found)
    header = next((fragment for fragment in found if fragment.is_sound and _is_header(fragment, seq)), None)
    file = header_of(header.fields or {}) if header else ItemFile(seq, 0, (), "", 0, {})
    count = _count(found)
    lines = [fragment for fragment in found[: None if count is None else -1] if fragment is not header]
    if header is None and lines and not _is_item(lines[0]):
        del lines[0]  # which was the header
    missing = None if count is None else count - len(lines)
    damage = [mended(fragment) for fragment in found if fragment.is_mended]
    for before, fragment in zip((None, *found), found, strict=False):
        if not fragment.is_sound and _is_uncheckable(fragment, before, missing):
            fragment.is_sound = True
            damage.append(
                _said_at(fragment, "an item that cannot be checked, as what precedes it is lost, is kept as it is")
            )
    for fragment in {fragment.line: fragment for fragment in lines if fragment.is_sound}.values():
        _take(fragment, file)
    for stretch in lost_stretches(found, lambda fragment: fragment.is_sound):
        size = sum(fragment.size for fragment in stretch)
        damage.append(_said_at(stretch[0], f"{size} bytes are not what was written"))
    lost = None if count is None else count - len(file.items)
    if lost != 0 or not header:
        damage.append(_lack(path, lost, has_header=header is not None, kept=len(file.items)))
    if not damage:
        damage.append(CorruptionError(f"{path!r} is damaged, but none of its items is lost", file=path, byte=0))
    return RescuedItems(file, header is not None, lost, sorted(damage, key=lambda error: error.byte or 0))


def _count(found: Sequence[Fragment]) -> int | None:
    """Return how many items a file should have by its last line, None where that is lost.

    A damaged one is believed if it says what there is.
    """
    last = found[-1] if found else None
    if last is None or last.fields is None or type(count := last.fields.get("end")) is not int:
        return None
    if not last.is_sound and (count != len(found) - 2 or not all(fragment.is_sound for fragment in found[:-1])):
        return None
    return count


def _is_header(fragment: Fragment, seq: int) -> bool:
    try:
        return header_of(fragment.fields or {}).seq == seq
    except CorruptionError:
        return False


def _is_item(fragment: Fragment) -> bool:
    try:
        return bool(item_of(fragment.fields or {}))
    except CorruptionError:
        return False


def _is_uncheckable(fragment: Fragment, before: Fragment | None, missing: int | None) -> bool:
    """Return whether a whole line may only lack the checksum that its own builds on."""
    if not _is_item(fragment):
        return False
    if before is None or (missing is not None and missing > 0):
        return True
    return not before.is_sound and (missing is None or before.stated is None)


def _take(fragment: Fragment, file: ItemFile) -> None:
    """Add the item of a sound line to its file's; what is none is not sound."""
    try:
        section, data = item_of(fragment.fields or {})
        blobs = stated_blobs(fragment.fields or {})
    except CorruptionError:
        fragment.is_sound = False
        return
    file.items.append((section, data))
    if blobs:
        file.lacking.append((data, blobs))


def _said_at(fragment: Fragment, what: str) -> CorruptionError:
    return CorruptionError(
        f"{fragment.path!r} is damaged at byte {fragment.start}: {what}", file=fragment.path, byte=fragment.start
    )


def _lack(path: str, lost: int | None, *, has_header: bool, kept: int) -> CorruptionError:
    header = "" if has_header else "its header, and "
    items = f"{lost} of {kept + lost} items" if lost is not None else f"nobody can tell how many items beside {kept}"
    return CorruptionError(f"{path!r} lacks {header}{items}; a copy of the file brings them back", file=path)
