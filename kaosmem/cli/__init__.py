"""The `kaosmem` command."""

from __future__ import annotations

import sys

from kaosmem.errors import KaosmemError, MissingExtraError


def main() -> None:
    """Run the command; a KaosmemError is one line on stderr and exit code 2."""
    try:
        run()
    except KaosmemError as error:
        sys.stderr.write(f"kaosmem: {error}\n")
        raise SystemExit(2) from None


def run(args: list[str] | None = None) -> None:
    """Run the command with `args`, by default the process's. Raises KaosmemError."""
    try:
        from kaosmem.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        raise MissingExtraError("the kaosmem command needs the extra 'cli': pip install 'kaosmem[cli]'") from None
    app(args)
