"""PatternFormer: forms own statements of lasting knowledge, without a model."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from kaosmem.errors import InvalidArgumentError
from kaosmem.formation.changes import NOT_PEOPLE, Action, Draft, Kind, ProposedChange
from kaosmem.language.rules import MAX_RULE_CHARS, plain_rules_in
from kaosmem.language.sentences import sentences_in
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

_LEAST_CHARS = 8
_PART = re.compile(r"\{([a-z_]+)\}")
_LINE_BREAK = re.compile(r"\n\s*")
_FENCE = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_FORWARDED = re.compile(
    r"^(?:From|Von|De): \S.*\Z|^-{2,} ?(?:Forwarded|Original) .*\Z|^On [^\n]{5,80} wrote:.*\Z",
    re.DOTALL | re.MULTILINE,
)
_QUOTED = re.compile(r"""(?:(?<=[\s(])|^)["“](?:[^"”\s]+[ \t]+){2,}[^"”\n]*["”]""", re.MULTILINE)
"""Words of somebody, three or more. A quoted name or prefix belongs to its sentence."""
_SPACES = re.compile(r"\s+")
_STANDING = re.compile(
    r"\b(?:always|never|from now on|going forward|in (?:the )?future|"
    r"(?:every|each) time|whenever|at all times)\b",
    re.IGNORECASE,
)
"""A rule without such words is mostly a request for one act."""


class PatternFormer:
    """Forms own statements: preference, identity, place, plan, decision, commitment, value, rule.

    A formed statement is the sentence as it was said. So it is few words, and true to its source.
    Messages of assistants and tools, questions, suppositions and code form nothing.

    Args:
        patterns: A file in TOML with patterns of your own, in place of those for English. The file
            `kaosmem/formation/patterns/en.toml` describes the form.
        name: The name of the former's mark in the session's log.

    Raises:
        InvalidArgumentError: If the file has no valid patterns.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> said = memory.add("messages", "Hi! My name is Ann. Could you help me? I prefer tea.")
    >>> print(*await memory.form(PatternFormer()), sep="; ")
    My name is Ann.; I prefer tea.
    """

    def __init__(self, patterns: str | Path | None = None, *, name: str = "patterns") -> None:
        self.name = name
        if patterns is None:
            self._table = _english()
        else:
            self._table = _Table(Path(patterns).read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        return f"<PatternFormer {self.name!r}>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return one change for each statement."""
        changes: list[ProposedChange] = []
        for item in said:
            if item.role.casefold() not in NOT_PEOPLE and item.trust >= Trust.MODEL:
                changes += self._table.statements(item)
        return Draft(changes, has_exact_keys=True)


class _Row:
    """One pattern of the table."""

    def __init__(self, row: Mapping[str, Any], expand: Any, same: Mapping[str, str]) -> None:
        self._same = same
        self.action: Action = row.get("action", "add")
        self.kind: Kind = row["kind"]
        self.about: str = row["about"]
        self.signs: Sequence[str] = row.get("signs", ())
        self.key: str = row.get("key", "")
        self.only_colleagues: bool = row.get("only_colleagues", False)
        self._pattern: str = expand(row["pattern"])

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self._pattern, re.IGNORECASE)

    def key_of(self, found: re.Match[str], speaker: str) -> str | None:
        """Return the key of a statement, None if its pattern gives none."""
        if not self.key:
            return None
        named = {}
        for name, value in found.groupdict().items():
            word = (value or "").casefold()
            named[name] = self._same.get(word, word)
        key = self.key.format(speaker=speaker or "user", **named)
        return _SPACES.sub(" ", key).strip().casefold()


class _Table:
    """The patterns of one file."""

    def __init__(self, text: str) -> None:
        try:
            table = tomllib.loads(text)
            self._parts: dict[str, str] = table.get("parts", {})
            same: dict[str, str] = table.get("same", {})
            self._rows = [_Row(row, self._expanded, same) for row in table["statements"]]
            self._lead = re.compile(self._expanded(table.get("leads", "")), re.IGNORECASE)
            excluded = self._expanded(table.get("excluded", "(?!)"))
            self._excluded = re.compile(excluded, re.IGNORECASE)
            excluded_facts = self._expanded(table.get("excluded_facts", "(?!)"))
            self._excluded_facts = re.compile(excluded_facts, re.IGNORECASE)
        except (tomllib.TOMLDecodeError, KeyError, TypeError, re.error) as error:
            raise InvalidArgumentError(
                f"the file has no valid patterns: {error}; kaosmem/formation/patterns/en.toml "
                "describes the form"
            ) from None

    def statements(self, item: Item) -> Iterator[ProposedChange]:
        """Yield a change for each statement of a message, and each plain rule of a trusted user."""
        rules: frozenset[str] = frozenset()
        if item.trust >= Trust.USER:
            rules = frozenset(map(_bare, plain_rules_in(item.text)))
        for sentence in _sentences(item.text):
            change = self._change(sentence, item)
            if change is not None:
                yield change
            elif sentence in rules and self._is_standing(sentence):
                yield ProposedChange(sentence, sentence, (item.id,), kind="procedural")

    def _is_standing(self, sentence: str) -> bool:
        """Return whether a rule holds from now on, and can be understood alone."""
        return bool(_STANDING.search(sentence)) and not self._excluded.search(sentence)

    def _change(self, sentence: str, item: Item) -> ProposedChange | None:
        lowered = sentence.casefold()
        rows = [row for row in self._rows if any(sign in lowered for sign in row.signs)]
        if not rows or self._excluded.search(sentence):
            return None
        lead = self._lead.match(sentence)
        starts = {0, lead.end()} if lead else {0}
        is_open = self._excluded_facts.search(sentence) is not None
        for row in rows:
            if is_open and row.kind == "semantic":
                continue
            if row.only_colleagues and item.role == "user":
                continue
            for start in sorted(starts):
                found = row.pattern.match(sentence, start)
                if found:
                    key = row.key_of(found, item.role)
                    return ProposedChange(
                        sentence,
                        sentence,
                        (item.id,),
                        action=row.action,
                        kind=row.kind,
                        key=key,
                    )
        return None

    def _expanded(self, pattern: str) -> str:
        """Return a pattern with its parts in place of their names."""
        unbroken = _LINE_BREAK.sub("", pattern)

        def part(name: re.Match[str]) -> str:
            return self._expanded(self._parts[name[1]])

        return _PART.sub(part, unbroken)


@cache
def _english() -> _Table:
    file = files("kaosmem.formation").joinpath("patterns", "en.toml")
    return _Table(file.read_text(encoding="utf-8"))


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences that may hold a statement of the speaker: no code, quotes or mails."""
    if "```" in text or ">" in text:
        text = _FENCE.sub("\n", text)
    text = _QUOTED.sub("\n", _FORWARDED.sub("", text))
    for part in sentences_in(text):
        sentence = _bare(part)
        if _LEAST_CHARS <= len(sentence) <= MAX_RULE_CHARS:
            yield sentence


def _bare(sentence: str) -> str:
    """Return a sentence without marks of Markdown and quotation marks around it."""
    return sentence.strip().strip('*_"“”').strip()
