"""A search of the process for a text: what can be reached from given objects, and from all modules of the package."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
from array import array
from collections.abc import Iterable, Iterator
from types import FrameType, ModuleType

import numpy as np
import pytest
import tiktoken

_NOT_SEARCHED = (
    FrameType,
    asyncio.AbstractEventLoop,
    ModuleType,
    tiktoken.Encoding,
    pytest.Session,
    pytest.Config,
)
_EMPTY = (int, float, bool, type(None))


def modules_of(package: str = "kaosmem") -> list[ModuleType]:
    """Return what is imported of a package."""
    return [module for name, module in sys.modules.items() if f"{name}.".startswith(f"{package}.")]


def traces(needles: Iterable[str], roots: Iterable[object]) -> list[str]:
    """Return where any of these texts is found, each as the types on the way to it from a root.

    It looks into all that `gc` sees, text and bytes of any encoding that Python stores them in,
    arrays and buffers, but not into modules other than the roots, nor into frames, event loops and
    pytest's session, where the tests are, nor into the tokens of an encoding, which are a
    package's.
    """
    roots = list(roots)
    sought = [needle.casefold() for needle in needles]
    encoded = [
        needle.encode(encoding)
        for needle in sought
        for encoding in ("utf-8", "utf-16-le", "utf-32-le")
    ]
    own = {id(root) for root in roots}
    others = {
        id(each)
        for module in list(sys.modules.values())
        if id(module) not in own
        for each in _parts(module)
    }
    parents: dict[int, object] = {id(root): None for root in roots}
    alive = list[object]()
    found = list[str]()
    left = list(roots)
    passed_over = dict.fromkeys(
        _EMPTY, True
    )  # asked once per type, since there are millions of objects
    while left:
        each = left.pop()
        hidden = [*_hidden(each)]
        if any(_holds(part, sought, encoded) for part in (each, *hidden)):
            found.append(_way_to(each, parents))
        for inner in (*gc.get_referents(each), *hidden):
            is_passed_over = passed_over.get(type(inner))
            if is_passed_over is None:
                is_passed_over = passed_over[type(inner)] = isinstance(inner, _NOT_SEARCHED)
            if is_passed_over or id(inner) in parents or id(inner) in others:
                continue
            parents[id(inner)] = each
            alive.append(inner)  # or another object might get its id
            left.append(inner)
    return found


def _parts(module: object) -> Iterator[object]:
    yield module
    if isinstance(module, ModuleType):
        yield vars(module)


def _hidden(each: object) -> Iterator[object]:
    """Yield what an object holds that `gc` does not see."""
    if type(each) in (str, tuple, list):
        return
    if isinstance(each, dict):
        yield from dict.keys(each)  # those that are text
    elif isinstance(each, io.BytesIO | io.StringIO) and not each.closed:
        yield each.getvalue()
    elif isinstance(each, np.ndarray):
        yield from each.ravel().tolist() if each.dtype.hasobject else (each.tobytes(),)
    elif isinstance(each, array):
        yield each.tobytes()
    elif isinstance(each, memoryview):
        yield each.obj


def _holds(each: object, sought: list[str], encoded: list[bytes]) -> bool:
    if isinstance(each, str):
        folded = each.casefold()
        return any(needle in folded for needle in sought)
    if isinstance(each, bytes | bytearray):
        lowered = bytes(each).lower()
        return any(needle in lowered for needle in encoded)
    return False


def _way_to(each: object, parents: dict[int, object]) -> str:
    way = [type(each).__name__]
    while (each := parents[id(each)]) is not None:
        way.append(each.__name__ if isinstance(each, ModuleType | type) else type(each).__name__)
    return " > ".join(reversed(way))
