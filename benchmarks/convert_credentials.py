"""Convert the rules of gitleaks into the table that `kaosmem.language.credentials` reads.

`python -m benchmarks.convert_credentials gitleaks.toml 8.30.1` writes
`kaosmem/language/credentials.json` from the configuration of that version. gitleaks writes its
patterns for RE2. This script rewrites what Python's `re` writes in another way, and names the rules
that it leaves out in the table.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "kaosmem" / "language" / "credentials.json"
TOO_SLOW = ("curl-auth-header", "curl-auth-user")
"""RE2 takes linear time for any pattern.

Python takes the fifth power of a text's length for these.
"""
CONTEXT = r"[\w.-]{0,50}?"
"""How many patterns begin: the rest of a name.

It decides nothing about the credential, and takes most of the time.
"""
_FLAGS_INSIDE = re.compile(r"\(\?i\)")


def converted(pattern: str) -> str:
    """Return a pattern of RE2 as one of Python. Raises re.error."""
    pattern = pattern.replace(r"\z", r"\Z").replace(CONTEXT, "", 1)
    pattern = pattern.replace("[:alnum:]", "a-zA-Z0-9")
    while (flags := _FLAGS_INSIDE.search(pattern, 1)) is not None:
        end = _end_of_group(pattern, flags.end())
        pattern = f"{pattern[: flags.start()]}(?i:{pattern[flags.end() : end]}){pattern[end:]}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of what Python will read otherwise one day
        re.compile(pattern, re.ASCII)
    return pattern


def _end_of_group(pattern: str, place: int) -> int:
    """Return where the group ends in which a place of a pattern is."""
    depth = 0
    is_class = False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
        elif is_class:
            is_class = char != "]"
        elif char == "[":
            is_class = True
        elif char == "(":
            depth += 1
        elif char == ")":
            if depth == 0:
                return place
            depth -= 1
        place += 1
    return place


def row(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule as a row of the table.

    Raises ValueError with the reason why it can't be one.
    """
    if rule["id"] in TOO_SLOW:
        raise ValueError("takes more than linear time")
    if "regex" not in rule or "path" in rule:
        raise ValueError("asks for a file's path")
    try:
        made = {"id": rule["id"], "keywords": rule["keywords"], "regex": converted(rule["regex"])}
        allowed = [allowed_row(each) for each in rule.get("allowlists", ()) if "paths" not in each]
    except re.error as error:
        raise ValueError(str(error)) from None
    if "entropy" in rule:
        made["entropy"] = rule["entropy"]
    if "secretGroup" in rule:
        made["group"] = rule["secretGroup"]
    if allowed:
        made["allowed"] = allowed
    return made


def allowed_row(allowed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rule allows. Raises re.error."""
    made: dict[str, Any] = {"regexes": [converted(each) for each in allowed.get("regexes", ())]}
    if "regexTarget" in allowed:
        made["target"] = allowed["regexTarget"]
    if "stopwords" in allowed:
        made["stopwords"] = allowed["stopwords"]
    return made


def main(path: str, version: str) -> None:
    """Write the table."""
    config = tomllib.loads(Path(path).read_text("utf-8"))
    rules = []
    left_out = {}
    for rule in config["rules"]:
        try:
            rules.append(row(rule))
        except ValueError as error:
            left_out[rule["id"]] = str(error)
    table = {
        "source": f"config/gitleaks.toml of gitleaks {version}, "
        "https://github.com/gitleaks/gitleaks",
        "licence": "MIT, see credentials.LICENSE",
        "left_out": left_out,
        "allowed": allowed_row(config["allowlist"]),
        "rules": rules,
    }
    TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(len(rules), "rules;", *(f"{name}: {why};" for name, why in left_out.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
