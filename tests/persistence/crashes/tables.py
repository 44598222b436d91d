"""Tables that a test run prints, whatever it captures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest


def print_table(request: pytest.FixtureRequest, header: Sequence[str], rows: Mapping[str, Sequence[int]]) -> None:
    """Print rows of numbers under a header."""
    width = max(map(len, (header[0], *rows))) + 2
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{header[0]:{width}}" + "".join(f"{name:>{len(name) + 3}}" for name in header[1:]))
        for name, numbers in rows.items():
            columns = zip(numbers, header[1:], strict=True)
            print(f"{name:{width}}" + "".join(f"{number:{len(title) + 3},}" for number, title in columns))
