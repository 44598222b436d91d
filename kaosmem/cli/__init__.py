"""The `kaosmem` command."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import warnings

from kaosmem.errors import KaosmemError, MissingExtraError


def main() -> None:
    """Run the command with the process's arguments. An error is one line on stderr.

    Exit codes: 2 for a KaosmemError or a wrong argument, 130 for Ctrl-C, 1 for output that cannot
    be written. A reader that has seen enough, such as `head`, is no error.
    """
    # asyncio puts its own handler in place of Python's alone, and that one waits until the next
    # await.
    signal.signal(signal.SIGINT, _interrupt)
    # Libraries that read documents say of damaged ones more than a user can do about.
    logging.getLogger("pypdf").addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not have every character
    try:
        try:
            run()
        finally:
            sys.stdout.flush()
    except KaosmemError as error:
        _say(error)
        raise SystemExit(2) from None
    except OSError as error:
        # The rest of the buffer can't be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise SystemExit(0) from None
        _say(error)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def run(args: list[str] | None = None) -> None:
    """Run the command with `args`, by default the process's. Raises KaosmemError."""
    try:
        from kaosmem.cli.app import app

        app(args)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        raise MissingExtraError(
            "the kaosmem command needs the extra 'cli': pip install 'kaosmem[cli]'"
        ) from None


def _say(error: Exception) -> None:
    sys.stderr.write(f"kaosmem: {error}".replace("\n", " ") + "\n")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
