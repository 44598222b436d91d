"""Credentials in a text, by the rules of gitleaks: keys, tokens, passwords, addresses with them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from kaosmem.exact import log
from kaosmem.language.tables import toml_table

CREDENTIAL_PLACEHOLDER = "[credential]"
"""The mark that stands for a credential which was left out."""

_WINDOW_CHARS = 16_384
_OVERLAP_CHARS = 512
_NAME_BEFORE = re.compile(r"[\w.-]{1,50}\Z", re.ASCII)
_MAX_NAME_CHARS = 50

# A key that was cut has no end.
_PRIVATE_KEY = re.compile(
    r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END[ A-Z0-9_]{0,100}-----|\Z)",
    re.DOTALL,
)


class _Allowed:
    """What a rule finds and is no credential, such as a placeholder."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._patterns: Sequence[str] = row["regexes"]
        self._target: str = row.get("target", "secret")
        self._words: Sequence[str] = row.get("stopwords", ())

    @cached_property
    def _compiled(self) -> Sequence[re.Pattern[str]]:
        return [re.compile(pattern, re.ASCII) for pattern in self._patterns]

    def covers(self, found: re.Match[str], secret: str) -> bool:
        """Return whether a match is allowed."""
        lowered = secret.lower()
        if any(word in lowered for word in self._words):
            return True
        shown = self._shown(found, secret)
        return any(pattern.search(shown) for pattern in self._compiled)

    def _shown(self, found: re.Match[str], secret: str) -> str:
        """Return the part of the text that decides."""
        if self._target == "secret":
            return secret
        text = found.string
        if self._target == "match":
            start = found.start()
            before = _NAME_BEFORE.search(text, max(0, start - _MAX_NAME_CHARS), start)
            if before:
                return before[0] + found[0]
            return found[0]
        begin = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        if end < 0:
            end = len(text)
        return text[begin:end][: 4 * _OVERLAP_CHARS]


class _Rule:
    """One rule of the table. Its pattern is compiled when it is needed first."""

    def __init__(self, row: Mapping[str, Any], allowed: _Allowed) -> None:
        self._regex: str = row["regex"]
        self._entropy: float = row.get("entropy", 0.0)
        self._group: int = row.get("group", 0)
        self._allowed = [allowed, *map(_Allowed, row.get("allowed", ()))]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._regex, re.ASCII)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where credentials begin and end in a text."""
        for found in self._pattern.finditer(text):
            group = self._group or found.lastindex or 0
            secret = found[group]
            if CREDENTIAL_PLACEHOLDER in secret or secret in CREDENTIAL_PLACEHOLDER:
                continue
            if self._entropy and entropy(secret) <= self._entropy:
                continue
            if not any(allowed.covers(found, secret) for allowed in self._allowed):
                yield found.span(group)


@cache
def _rules() -> Mapping[str, Sequence[_Rule]]:
    """Return the rules by each of their keywords.

    The rules of gitleaks look for secrets of machines in source code. The second table has
    credentials as people write them.
    """
    file = files("kaosmem.language").joinpath("credentials.json")
    table = json.loads(file.read_text(encoding="utf-8"))
    said = toml_table("credentials_said.toml")
    placeholders = _Allowed(table["allowed"])
    by_keyword: dict[str, list[_Rule]] = {}
    for row in (*table["rules"], *said["rules"]):
        rule = _Rule(row, placeholders)
        for keyword in row["keywords"]:
            by_keyword.setdefault(keyword, []).append(rule)
    return by_keyword


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits a character.

    >>> entropy("abab")
    1.0
    """
    bits = 0.0
    for times in Counter(text).values():
        share = times / len(text)
        bits -= share * log(share) / log(2)
    return bits


def without_credentials(text: str) -> str:
    """Return a text with `CREDENTIAL_PLACEHOLDER` in the place of each credential in it.

    A long text is read in windows that overlap, so that no pattern takes more than linear time.

    >>> without_credentials("Use postgres://app:x7Tq9@db.example.com/shop")
    'Use postgres://app:[credential]@db.example.com/shop'
    """
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(CREDENTIAL_PLACEHOLDER, text)
    spans: set[tuple[int, int]] = set()
    for begin in range(0, max(1, len(text) - _OVERLAP_CHARS), _WINDOW_CHARS - _OVERLAP_CHARS):
        for start, end in _spans(text[begin : begin + _WINDOW_CHARS]):
            spans.add((begin + start, begin + end))
    if not spans:
        return text
    parts = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], CREDENTIAL_PLACEHOLDER]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where credentials begin and end in a window of a text, some of them twice."""
    lowered = text.lower()
    asked: set[_Rule] = set()
    for keyword, rules in _rules().items():
        if keyword in lowered:
            asked.update(rules)
    for rule in asked:
        yield from rule.spans(text)
