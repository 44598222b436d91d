"""Tables of counts that a test run prints at its end, whatever it captures and in however many processes it runs."""

import pytest

TABLES = pytest.StashKey[list[str]]()


def add_table(config, header, rows):
    """Add rows of numbers under a header."""
    width = max(map(len, (header[0], *rows))) + 2
    lines = [f"{header[0]:{width}}" + "".join(f"{name:>{len(name) + 3}}" for name in header[1:])]
    for name, numbers in rows.items():
        columns = zip(numbers, header[1:], strict=True)
        lines.append(
            f"{name:{width}}" + "".join(f"{number:{len(title) + 3},}" for number, title in columns)
        )
    config.stash[TABLES].append("\n".join(lines))
