"""The oracle of erasure: which files still hold a forgotten text, in any spelling."""

from __future__ import annotations

import json
import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from kaosmem.persistence.storage.places import Location, filesystem_of

_MAX_LAYERS = 3
_PACKED = re.compile(
    rb"(?P<zlib>\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda])|(?P<zip>PK\x03\x04.{4}\x08\x00)", re.DOTALL
)


def paths_holding(place: Location | Mapping[str, bytes | None], *texts: str) -> list[str]:
    """Return the paths of all files that hold one of the texts, sorted.

    A text is found in upper and lower case, as UTF-8, UTF-16 and UTF-32, escaped as JSON once or
    twice, percent-encoded, as hexadecimal digits and base64, and in data compressed by gzip, zlib
    or zip.

    Args:
        place: A folder, a URL, a filesystem, or the content by path (None for a folder). Every file
            below it is searched, temporary ones too, and every path.
        texts: Words that no other text has. Indexes hold a text word by word, so give words.

    >>> from kaosmem import SessionMemory
    >>> async with SessionMemory.open("./.kaosmem", "deal-42") as memory:
    ...     item = memory.add("findings", "The password is xyzzy.")
    ...     await memory.save()
    ...     print(len(paths_holding("./.kaosmem", "xyzzy")))
    ...     receipt = await memory.forget(item.id)
    ...     print(paths_holding("./.kaosmem", "xyzzy"))
    1
    []
    """
    files = place if isinstance(place, Mapping) else _files_at(place)
    sought = _spellings(texts)
    return sorted(
        path
        for path, data in files.items()
        if _holds(path.encode(), *sought) or (data and _holds(data, *sought))
    )


def _files_at(location: Location) -> dict[str, bytes | None]:
    filesystem = filesystem_of(location)
    filesystem.invalidate_cache()
    found = filesystem.find("", withdirs=True, detail=True)
    files: dict[str, bytes | None] = dict.fromkeys(found)
    for path, info in found.items():
        if info["type"] == "file":
            files[path] = filesystem.cat_file(path)
    return files


def _holds(
    data: bytes,
    folded: frozenset[bytes],
    exact: frozenset[bytes],
    layers: int = _MAX_LAYERS,
) -> bool:
    """Return whether data, or what is compressed in it, holds a spelling."""
    lowered = data.lower()
    if any(each in lowered for each in folded) or any(each in data for each in exact):
        return True
    return layers > 0 and any(_holds(each, folded, exact, layers - 1) for each in _unpacked(data))


def _spellings(texts: tuple[str, ...]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Return how the texts may be written: in lower case, and exactly."""
    folded = set[bytes]()
    exact = set[bytes]()
    for text in {*texts, *map(str.lower, texts), *map(str.casefold, texts)}:
        escaped = {
            text,
            *(json.dumps(text, ensure_ascii=ascii_alone)[1:-1] for ascii_alone in (True, False)),
        }
        escaped |= {json.dumps(each)[1:-1] for each in escaped} | {quote(text, safe="")}
        folded |= {each.encode() for each in escaped}
        folded |= {
            text.encode(encoding)
            for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
        }
        folded.add(text.encode().hex().encode())
        exact |= set(_in_base64(text.encode()))
    return frozenset(each.lower() for each in folded), frozenset(exact)


def _in_base64(data: bytes) -> Iterator[bytes]:
    """Yield the base64 digits that stand for nothing but these bytes, wherever these begin."""
    for before in range(3):
        digits = b64encode(bytes(before) + data)
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        if last - first >= 4:
            yield digits[first:last]
            yield digits[first:last].translate(bytes.maketrans(b"+/", b"-_"))


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield what compressed parts of data hold, as far as they are intact."""
    for match in _PACKED.finditer(data):
        start = match.start()
        window = zlib.MAX_WBITS | 32
        if match.lastgroup == "zip":
            lengths = data[start + 26 : start + 30]
            start += 30 + sum(struct.unpack("<HH", lengths))
            window = -zlib.MAX_WBITS
        decompressor = zlib.decompressobj(window)
        found = bytearray()
        try:
            for at in range(start, len(data), 4_096):  # what precedes damage is yielded
                found += decompressor.decompress(data[at : at + 4_096])
                if decompressor.eof:
                    break
        except (zlib.error, EOFError):
            pass
        if found:
            yield bytes(found)
