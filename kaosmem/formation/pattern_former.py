"""PatternFormer: forms own statements of lasting knowledge, without a model."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from kaosmem.errors import InvalidArgumentError
from kaosmem.formation.changes import NOT_PEOPLE, Action, Draft, Kind, ProposedChange, text_of
from kaosmem.formation.quotes import own_words, unquoted
from kaosmem.language.rules import MAX_RULE_CHARS, expanded, plain_rules_in
from kaosmem.language.sentences import sentences_in
from kaosmem.types.content import Trust
from kaosmem.types.items import Item

_LEAST_CHARS = 8
_SPACES = re.compile(r"\s+")
_NOTHING = "(?!)"
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
        MissingFileError: If there is no such file.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> said = memory.add("messages", "Hi! My name is Ann. Could you help me? I prefer tea.")
    >>> print(*await memory.form(PatternFormer()), sep="; ")
    My name is Ann.; I prefer tea.
    """

    def __init__(self, patterns: str | Path | None = None, *, name: str = "patterns") -> None:
        self.name = name
        text = text_of(patterns, "patterns", "en.toml")
        try:
            self._table = _table(text)
        except (ValueError, LookupError, TypeError, RecursionError, re.error) as error:
            raise InvalidArgumentError(
                f"the file has no valid patterns: {error}; kaosmem/formation/patterns/en.toml "
                "describes the form"
            ) from None

    def __repr__(self) -> str:
        return f"<PatternFormer {self.name!r}>"

    async def propose(self, said: Sequence[Item], known: Sequence[Item]) -> Draft:
        """Return one change for each statement of a person, and each rule of a trusted user."""
        changes: list[ProposedChange] = []
        for item in said:
            await asyncio.sleep(0)  # turns go on beside an import
            if item.role.casefold() not in NOT_PEOPLE and item.trust >= Trust.MODEL:
                changes += self._table.changes(item)
        return Draft(changes, has_exact_keys=True)


class _Row(NamedTuple):
    """A row of the table. The file for English describes the fields."""

    pattern: re.Pattern[str]
    kind: Kind
    about: str
    action: Action = "add"
    key: str = ""
    only_colleagues: bool = False


class _Table(NamedTuple):
    """The patterns of one file."""

    rows: Sequence[_Row]
    same: Mapping[str, str]
    subject: str
    leads: re.Pattern[str]
    excluded: re.Pattern[str]
    excluded_facts: re.Pattern[str]
    clause_begin: re.Pattern[str]
    without_subject: re.Pattern[str]
    taken_back: re.Pattern[str]

    def changes(self, item: Item) -> Iterator[ProposedChange]:
        """Yield a change for each statement of a message, and each plain rule of a trusted user."""
        rules: frozenset[str] = frozenset()
        if item.trust >= Trust.USER:
            rules = frozenset(map(_bare, plain_rules_in(item.text)))
        sentences = [*_sentences(item.text)]
        for sentence, following in zip_longest(sentences, sentences[1:], fillvalue=""):
            if self.taken_back.match(following):
                continue
            changes = self._changes(sentence, item)
            if not changes and sentence in rules and _STANDING.search(sentence):
                changes = [ProposedChange(sentence, sentence, (item.id,), kind="procedural")]
            if changes and not self.excluded.search(sentence):
                yield from changes

    def _changes(self, sentence: str, item: Item) -> list[ProposedChange]:
        """Return the changes of all clauses if each is a statement, else that of the sentence."""
        changes = []
        for clause in self.clause_begin.split(sentence):
            change = self._change(clause, item)
            if change is None:
                whole = self._change(sentence, item)
                if whole is None:
                    return []
                return [whole]
            changes.append(change)
        return changes

    def _change(self, quote: str, item: Item) -> ProposedChange | None:
        """Return the change of the first row that words match, at their begin or their lead."""
        sentence = f"{self.subject}{quote}" if self.without_subject.match(quote) else quote
        lead = self.leads.match(sentence)
        starts = [0]
        if lead:
            starts = sorted({0, lead.end()})
        for row in self.rows:
            if row.only_colleagues and item.role == "user":
                continue
            for start in starts:
                found = row.pattern.match(sentence, start)
                if found is None:
                    continue
                if row.kind == "semantic" and self.excluded_facts.search(sentence):
                    break
                key = self._key(row.key, found, item.role)
                if row.action == "retire":
                    sentence = quote = quote[start:]  # a lead such as "Good news" names no fact
                return ProposedChange(sentence, quote, (item.id,), row.action, row.kind, key)
        return None

    def _key(
        self,
        form: str,
        found: re.Match[str],
        speaker: str,
    ) -> str | None:
        """Return the key of a statement, None if its row gives none."""
        named = {}
        for name, value in found.groupdict(default="").items():
            named[name] = self.same.get(value.casefold(), value)
        key = form.format(speaker=speaker or "user", **named)
        return _SPACES.sub(" ", key).strip().casefold() or None


@cache
def _table(text: str) -> _Table:
    """Return the patterns in the text of a file, with the parts in place of their names."""
    stored = tomllib.loads(text)
    parts = stored.get("parts", {})

    def compiled(pattern: str) -> re.Pattern[str]:
        return re.compile(expanded(pattern, parts), re.IGNORECASE)

    rows = []
    for row in stored["statements"]:
        row["pattern"] = compiled(row["pattern"])
        rows.append(_Row(**row))
    others = [compiled(stored.get(name, _NOTHING)) for name in _Table._fields[3:]]
    return _Table(rows, stored.get("same", {}), stored.get("subject", ""), *others)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences that may hold a statement of the speaker: no code, quotes or mails."""
    for part in sentences_in(unquoted(own_words(text))):
        sentence = _bare(part)
        if _LEAST_CHARS <= len(sentence) <= MAX_RULE_CHARS:
            yield sentence


def _bare(sentence: str) -> str:
    """Return a sentence without marks of Markdown and quotation marks around it."""
    return sentence.strip().strip('*_"“”').strip()
