"""The word patterns of formation. They stand in files that a reader can check, and add words to."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kaosmem.language.rules import expanded


@cache
def patterns(name: str) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a file in `kaosmem/formation/patterns`, by name, in their order.

    Letters of both cases match, and `^` and `$` match at lines. A line break in a pattern, with the
    spaces after it, does not count.
    """
    file = files("kaosmem.formation").joinpath("patterns", f"{name}.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    flags = re.IGNORECASE | re.MULTILINE
    return {key: re.compile(expanded(pattern, {}), flags) for key, pattern in table.items()}
