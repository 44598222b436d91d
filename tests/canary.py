"""A search of the process for a text: what can be reached from given objects, and from all modules of the package."""

import asyncio
import gc
import io
import sys
from array import array
from functools import cache
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
_TEXT = (str, bytes, bytearray)
_HIDING = (dict, io.BytesIO, io.StringIO, np.ndarray, array, memoryview)


def modules_of(package="kaosmem"):
    """Return what is imported of a package."""
    return [module for name, module in sys.modules.items() if f"{name}.".startswith(f"{package}.")]


def traces(needles, roots):
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
    parents = {id(root): None for root in roots}
    alive = list[object]()
    found = list[str]()
    left = list(roots)
    kinds = _Kinds()  # asked once per type, since there are millions of objects
    while left:
        each = left.pop()
        if kinds.is_text(type(each)) and _holds(each, sought, encoded):
            found.append(_way_to(each, parents))
        for inner in kinds.parts_of(each):
            if kinds.is_passed_over(type(inner)) or id(inner) in parents or id(inner) in others:
                continue
            parents[id(inner)] = each
            alive.append(inner)  # or another object might get its id
            left.append(inner)
    return found


class _Kinds:
    """What is known of the types of objects."""

    def __init__(self):
        self.is_text = cache(lambda kind: issubclass(kind, _TEXT))
        self.is_passed_over = cache(lambda kind: kind in _EMPTY or issubclass(kind, _NOT_SEARCHED))
        self._is_hiding = cache(lambda kind: issubclass(kind, _HIDING))

    def parts_of(self, each):
        """Return what an object holds."""
        kind = type(each)
        if kind is str or kind is bytes:
            return ()
        parts = gc.get_referents(each)
        if self._is_hiding(kind):
            parts += _hidden(each)
        return parts


def _parts(module):
    yield module
    if isinstance(module, ModuleType):
        yield vars(module)


def _hidden(each):
    """Yield what an object holds that `gc` does not see."""
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


def _holds(each, sought, encoded):
    if isinstance(each, str):
        folded = each.casefold()
        for needle in sought:
            if needle in folded:
                return True
    if isinstance(each, bytes | bytearray):
        lowered = bytes(each).lower()
        return any(needle in lowered for needle in encoded)
    return False


def _way_to(each, parents):
    way = [type(each).__name__]
    while (each := parents[id(each)]) is not None:
        way.append(each.__name__ if isinstance(each, ModuleType | type) else type(each).__name__)
    return " > ".join(reversed(way))
