"""Compressed files: gzip, bzip2 and xz, expanded within limits."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import IO, TypeAlias

from kaosmem.ingest.files import HEAD_BYTES, MAX_FILE_BYTES, UnreadableError

_MAX_RATIO = 200
_ALWAYS_BYTES = 1024 * 1024
"""A small file may expand to this size, whatever the ratio."""

_Opener: TypeAlias = Callable[[IO[bytes]], io.BufferedIOBase]
_OPENERS: dict[bytes, tuple[str, _Opener]] = {
    b"\x1f\x8b": ("gz", lambda stream: gzip.GzipFile(fileobj=stream)),
    **{b"BZh%d1AY&SY" % level: ("bz2", bz2.BZ2File) for level in range(1, 10)},
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
}


def is_compressed(data: bytes) -> bool:
    """Return whether a file begins as a compressed one."""
    return data.startswith(tuple(_OPENERS))


def expanded(name: str, data: bytes, check: Callable[[str, bytes], object]) -> tuple[str, bytes]:
    """Return the name and content of a compressed file without its compression, and any other as it is.

    check: called with the name and the first bytes before the rest is expanded.
    Raises UnreadableError for a damaged file, and for one that expands to too much.
    """
    opener = next((opener for magic, opener in _OPENERS.items() if data.startswith(magic)), None)
    if opener is None:
        return name, data
    suffix, opened = opener
    name = name.removesuffix(f".{suffix}")
    limit = expansion_limit(len(data))
    try:
        with opened(io.BytesIO(data)) as stream:
            head = stream.read(HEAD_BYTES)
            check(name, head)
            content = head + stream.read(limit + 1 - len(head)) if len(head) == HEAD_BYTES else head
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableError("damaged", f"{type(error).__name__} as {suffix}; compress it anew") from None
    check_expansion(len(content), len(data))
    return name, content


def expansion_limit(size: int, *, most: int = MAX_FILE_BYTES) -> int:
    """Return how many bytes a compressed file of so many bytes may expand to."""
    return min(most, max(_ALWAYS_BYTES, _MAX_RATIO * size))


def check_expansion(expanded_size: int, size: int) -> None:
    """Raise UnreadableError if a file of `size` bytes expands to too much."""
    limit = expansion_limit(size)
    if expanded_size > limit:
        raise UnreadableError("too large", f"expands to more than {limit:,} bytes; expand it and split it")
