"""Content and secrets to look for, and all the places where an error would show them."""

import pickle
import traceback
from collections.abc import Awaitable

# No line of a test shows one of them whole: tracebacks show lines.
CONTENT, SECRET = "canary".upper() + "-5d41402a", "hunter".upper() + "-9bc4f2e1"

URLS = (
    "nosuch://user:{}@host/path",
    "nosuch://{}@host/path",
    "nosuch://host/path?token={}",
    "nosuch://host/path#{}",
    "s3://key:{}@bucket/path",
    "sftp://user:{}/x@host:port/path",
    "http://user:{}@[host/path",
    "http://user:{}@host:port/path",
    "simplecache::nosuch://user:{}@host/path",
    "nosuch://user:{}@host::memory://user:{}@host",
)


def told(error):
    """All that an error shows: to who prints it, logs it with what led to it, or hands it to another process."""
    shown = [
        "".join(traceback.format_exception(error)),
        str(error),
        repr(error),
        repr(error.args),
        repr(vars(error)),
    ]
    return "\n".join([*shown, repr(pickle.dumps(error))])


async def refusal(act):
    """The error that an act ends in."""
    try:
        found = act()
        if isinstance(found, Awaitable):
            await found
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
