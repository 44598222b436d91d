"""The names of the columns that a Cypher query returns. AGE wants to be told their number."""

from __future__ import annotations

import re

from kaosmem.errors import InvalidArgumentError

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<word>\w+)|(?P<other>\s+|.)""",
    re.DOTALL,
)
_ALIAS = re.compile(r"\bAS\s+(\w+|`[^`]*`)\s*$", re.IGNORECASE)
_END = {"ORDER", "SKIP", "LIMIT", "UNION"}


def returned_columns(query: str) -> list[str]:
    """Return the names in the RETURN of a query, none for a query without one. Raises InvalidArgumentError for `*`.

    >>> returned_columns("MATCH (e) WHERE e.name = 'RETURN x, y' RETURN e.name AS name, count(e) ORDER BY name")
    ['name', 'count(e)']
    """
    depth, parts, is_in = 0, [""], False
    for token in _TOKEN.finditer(query):
        text, word = token[0], (token["word"] or "").upper()
        depth += bool(token["open"]) - bool(token["close"])
        if depth == 0 and word == "RETURN":
            is_in, parts = True, [""]
        elif depth == 0 and word in _END:
            is_in = False
            if word == "UNION":  # both sides have the same columns
                break
        elif is_in and not token["comment"]:
            if depth == 0 and token["comma"]:
                parts.append("")
            else:
                parts[-1] += text
    names = [_name(part) for part in parts if part.strip()]
    if "*" in names:
        raise InvalidArgumentError("the Cypher query returns *; name its columns, such as RETURN e.name, e.type")
    if len(set(names)) < len(names):
        raise InvalidArgumentError("two columns of the Cypher query have one name; give them others by AS")
    return names


def _name(part: str) -> str:
    expression = re.sub(r"^\s*DISTINCT\b", "", part, flags=re.IGNORECASE).strip()
    alias = _ALIAS.search(expression)
    return alias[1].strip("`") if alias else expression
