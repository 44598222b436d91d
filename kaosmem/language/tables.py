"""The tables of words in TOML files, which a reader can check and add to."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def toml_table(*path: str, package: str = "kaosmem.language") -> dict[str, Any]:
    """Return the table of a file of a package."""
    return tomllib.loads(files(package).joinpath(*path).read_text(encoding="utf-8"))


def tables_by_language(folder: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a folder with one file a language, by the names of the files."""
    found = {}
    for file in files("kaosmem.language").joinpath(folder).iterdir():
        name, _, ending = file.name.partition(".")
        if ending == "toml":
            found[name] = toml_table(folder, file.name)
    return dict(sorted(found.items()))
