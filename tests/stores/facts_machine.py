"""A state machine of facts against a model of plain values."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kaosmem.errors import NotFoundError
from kaosmem.testing.contracts.long_term import FACTS
from kaosmem.testing.contracts.store import refuses
from tests.stores.values import spoil, texts

T = TypeVar("T")

_TIMES = {
    "2024-05-07": datetime(2024, 5, 7, tzinfo=UTC),
    "2025-01-01T09:30:00": datetime(2025, 1, 1, 9, 30, tzinfo=UTC),
    "2125-06-30T23:30:00-02:00": datetime(2125, 7, 1, 1, 30, tzinfo=UTC),
}
_scopes = st.sampled_from([("a", "b:a"), ("a:b", "a"), ("A", "b:a"), ("a", "b:A")])
_contents = st.sampled_from(FACTS) | st.sampled_from(FACTS) | texts
_lives = st.sampled_from([None, None, 1, 2])
_fact_keys = st.sampled_from([None, "address", "address", "Address"])
_fact_fields = st.fixed_dictionaries(
    {"tags": st.lists(texts, max_size=2)},
    optional={"timestamp": st.sampled_from([*_TIMES]), "source": texts},
)


@dataclass
class _Fact:
    """A version of a fact, as plain values.

    gone: the time from which it is not read; -1 once it is deleted.
    """

    scope: tuple[str, str]
    key: str
    content: str
    since: datetime
    metadata: dict[str, Any]
    gone: float
    until: datetime | None = None


class FactsMachine(RuleBasedStateMachine):
    """Facts as plain values in the order in which they were saved, and the time when each is gone."""

    def __init__(self, contract):
        super().__init__()
        self.contract = contract
        self.held = {}
        self.now = 0.0
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.store = self.ask(contract.opened())

    def ask(self, asked):
        """Return the result of a call."""
        # Not by the runner, which takes and gives back the handler of Ctrl-C for each call.
        return self._runner.get_loop().run_until_complete(asked)

    def teardown(self):
        self.ask(self.contract.close(self.store))
        self._runner.close()

    @rule(is_wanted=st.sampled_from([False, False, True]))
    def delete_all(self, is_wanted):
        if is_wanted:
            self.ask(self.store.delete_all())
            for fact in self.held.values():
                fact.gone = -1.0

    @rule(scope=_scopes, content=_contents, lives=_lives, key=_fact_keys, metadata=_fact_fields)
    def save(
        self,
        scope,
        content,
        lives,
        key,
        metadata,
    ):
        ttl = None if lives is None else lives * self.contract.ttl_s
        given = copy.deepcopy(metadata)
        saving = self.store.save(
            scope[0], content, namespace=scope[1], ttl=ttl, key=key, metadata=given
        )
        memory_id = self.ask(saving)
        spoil(given)
        self._saved(memory_id, scope, content, lives, key, metadata)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), content=_contents, lives=_lives, metadata=_fact_fields)
    def update(self, which, content, lives, metadata):
        ttl = None if lives is None else lives * self.contract.ttl_s
        memory_id = self._one(which)
        fact = self.held[memory_id]
        agent, namespace = fact.scope
        updating = self.store.update(
            agent, memory_id, content, namespace=namespace, ttl=ttl, metadata=metadata
        )
        if fact.gone > self.now:
            self._saved(self.ask(updating), fact.scope, content, lives, fact.key, metadata)
        else:
            self.ask(refuses(NotFoundError, updating))

    @precondition(lambda self: any(fact.gone < float("inf") for fact in self.held.values()))
    @rule()
    def wait(self):
        self.now += 1
        self.ask(self.contract.wait(self.contract.ttl_s))

    @precondition(lambda self: self.contract.durable)
    @rule()
    def reopen(self):
        self.store = self.ask(self.contract.reopen(self.store))

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), scope=_scopes)
    def look_elsewhere(self, which, scope):
        memory_id = self._one(which)
        if self.held[memory_id].scope != scope:
            assert self.ask(self.store.get(scope[0], memory_id, namespace=scope[1])) is None

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99), scope=_scopes, own=st.sampled_from([True, True, False]))
    def delete(self, which, scope, own):
        memory_id = self._one(which)
        scope = self.held[memory_id].scope if own else scope
        self.ask(self.store.delete(scope[0], memory_id, namespace=scope[1]))
        if self.held[memory_id].scope == scope:
            self.held[memory_id].gone = -1.0

    @precondition(lambda self: sum(fact.gone > self.now for fact in self.held.values()) > 3)
    @rule(scope=_scopes)
    def clear(self, scope):
        self.ask(self.store.clear(scope[0], namespace=scope[1]))
        for fact in self.held.values():
            if fact.scope == scope:
                fact.gone = -1.0

    @precondition(lambda self: self.held)
    @rule(
        which=st.integers(0, 99),
        limit=st.integers(0, 4),
        superseded=st.sampled_from([False, False, True]),
    )
    def search(self, which, limit, superseded):
        fact = self.held[self._one(which)]
        scope = fact.scope
        asked = fact.content if fact.content in FACTS else FACTS[0]
        searching = self.store.search(
            scope[0], asked, namespace=scope[1], limit=limit, superseded=superseded
        )
        found = self.ask(searching)
        known = {
            each: fact.content
            for each, fact in self._held(scope).items()
            if superseded or fact.until is None
        }
        assert all(known[memory.id] == memory.content for memory in found)
        assert [memory.score for memory in found] == sorted(
            (memory.score for memory in found), reverse=True
        )
        assert len({memory.id for memory in found}) == len(found) <= limit
        exact = sum(text == asked for text in known.values())
        assert [memory.content for memory in found[:exact]] == [asked] * min(exact, limit)

    @invariant()
    def shelves_are_listed(self):
        shelves = {fact.scope for fact in self.held.values() if fact.gone > self.now}
        assert self.ask(self.contract.listed(self.store)) == sorted(shelves)

    @invariant()
    def facts_are_what_was_saved(self):
        for memory_id, fact in self.held.items():
            memory = self.ask(self.store.get(fact.scope[0], memory_id, namespace=fact.scope[1]))
            assert (memory and memory.content) == (fact.content if fact.gone > self.now else None)
            spoil(memory)

    @invariant()
    def versions_are_what_was_saved_in_order(self):
        for scope, key in {(fact.scope, fact.key) for fact in self.held.values()}:
            listed = self.ask(self.store.versions(scope[0], key, namespace=scope[1]))
            held = {each: fact for each, fact in self._held(scope).items() if fact.key == key}
            held = dict(sorted(held.items(), key=lambda each: each[1].since))
            assert [(version.item.id, version.item.key) for version in listed] == [
                (each, key) for each in held
            ]
            assert [version.valid_from for version in listed] == [
                fact.since for fact in held.values()
            ]
            assert [version.valid_until for version in listed] == [
                fact.until for fact in held.values()
            ]
            for version, fact in zip(listed, held.values(), strict=True):
                assert {**version.item.metadata, **fact.metadata} == version.item.metadata
            spoil(listed)

    def _one(self, which):
        return [*self.held][which % len(self.held)]

    def _held(self, scope):
        return {
            each: fact
            for each, fact in self.held.items()
            if fact.scope == scope and fact.gone > self.now
        }

    def _saved(
        self,
        memory_id,
        scope,
        content,
        lives,
        key,
        metadata,
    ):
        assert memory_id not in self.held
        key = key or memory_id
        listed = self.ask(self.store.versions(scope[0], key, namespace=scope[1]))
        [version] = [each for each in listed if each.item.id == memory_id]
        since = version.valid_from
        fact_of = [each for each in self.held.values() if (each.scope, each.key) == (scope, key)]
        begun = [each.since for each in fact_of if each.gone > self.now]
        stated = metadata.get("timestamp")
        assert since == (max([version.known_from, *begun]) if stated is None else _TIMES[stated])
        for fact in fact_of:
            if fact.since <= since:
                fact.until = since if fact.until is None else min(fact.until, since)
        until = min(
            (each.since for each in fact_of if each.since > since and each.gone > self.now),
            default=None,
        )
        gone = self.now + (lives or float("inf"))
        self.held[memory_id] = _Fact(scope, key, content, since, metadata, gone, until)
