"""An index of items with entities and relationships: a graph, its names, and an index of words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import count, repeat
from typing import Any, NamedTuple

import numpy as np

from kaosmem.entities import Entity, Relationship, graph_part_of, safe_line
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.ranker import Index, check_new, unknown_ordinal
from kaosmem.retrieval.scores import Scored, best
from kaosmem.types.items import Item

_PUNCTUATION = ".,:;!?\"'()[]{}«»“”‘’"
_POSSESSIVE = re.compile("['’]s$")
_END_OF_SENTENCE = (".", "!", "?", ":")
_MAX_WORDS = 16
"""A longer name is found by so many of its first words."""


class _Word(NamedTuple):
    """A word of a text.

    Attributes:
        term: Its form for comparisons.
        written: As it stands there, of a word that is no term (`it`, `&`).
        opens: Whether it begins a sentence.
    """

    term: str
    written: str
    opens: bool


class _Bearer(NamedTuple):
    """An entity with a name.

    Attributes:
        written: The words of the name as they are written, if none of them is a term. Else None.
    """

    entity: str
    written: tuple[str, ...] | None


class Mentions:
    """Names of entities, found in a text at a cost that grows with the text and not with the names.

    Case, accents, possessives and inflection do not matter; all words of a name count, in their
    order, but a leading "the" before two more. At each word the longest name wins, and its words
    name nothing else. A name of nothing but stop words or signs (`IT`, `The Who`) must stand there
    as it is written and, if it is a single capitalised word, not open a sentence.
    """

    def __init__(self) -> None:
        self._bearers: dict[tuple[str, ...], list[_Bearer]] = {}

    def add(self, name: str, entity: str) -> None:
        """Add a name of an entity; a name added twice is discarded twice."""
        for key, bearer in _keys(name, entity):
            self._bearers.setdefault(key, []).append(bearer)

    def discard(self, name: str, entity: str) -> None:
        """Take a name of an entity out again."""
        for key, bearer in _keys(name, entity):
            self._bearers[key].remove(bearer)
            if not self._bearers[key]:
                del self._bearers[key]

    def entities_in(self, text: str) -> list[str]:
        """Return the entities that a text names, each once, in the order of their first mention."""
        words = list(_words(text))
        start = 0
        named: dict[str, None] = {}
        while start < len(words):
            length, entities = self._longest(words[start : start + _MAX_WORDS])
            named |= dict.fromkeys(entities)
            start += length
        return list(named)

    def _longest(self, words: list[_Word]) -> tuple[int, list[str]]:
        """Return of how many of the first words the longest name is, and who bears it."""
        terms = tuple(word.term for word in words)
        for length in range(len(words), 0, -1):
            bearers = self._bearers.get(terms[:length], ())
            entities = [each.entity for each in bearers if _is_meant(each, words[:length])]
            if entities:
                return length, entities
        return 1, []


def _is_meant(bearer: _Bearer, words: list[_Word]) -> bool:
    """Return whether words with the terms of a name are written as it is, if they need to be."""
    if bearer.written is None:
        return True
    if len(words) == 1 and words[0].opens and words[0].written.istitle():
        return False
    return tuple(word.written for word in words) == bearer.written


def _keys(name: str, entity: str) -> Iterator[tuple[tuple[str, ...], _Bearer]]:
    """Yield the terms under which a name is found, with and without a leading "the"."""
    words = list(_words(name))
    variants = [words]
    if len(words) > 2 and words[0].term == "the":
        variants.append(words[1:])
    for variant in filter(None, variants):
        found = variant[:_MAX_WORDS]
        written = tuple(word.written for word in found)
        terms = tuple(word.term for word in found)
        yield terms, _Bearer(entity, written if all(written) else None)


def _words(text: str) -> Iterator[_Word]:
    opens = True
    for chunk in text.split():
        terms = analyze(_plain(chunk))
        if terms:
            yield from (_Word(term, "", False) for term in terms)
        else:
            written = _POSSESSIVE.sub("", chunk.strip(_PUNCTUATION)) or chunk
            yield _Word(written.casefold(), written, opens)
        opens = chunk.endswith(_END_OF_SENTENCE)


def _plain(chunk: str) -> str:
    """Return a chunk in lower case and without accents."""
    if chunk.isascii():
        return chunk.lower()
    # Marks that stand alone go first: normalising a run of n of them takes n² steps.
    bare = "".join(char for char in chunk if not unicodedata.combining(char))
    decomposed = unicodedata.normalize("NFKD", bare.casefold())
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", plain)


# Weight of being named against the words of the best line. Above 1, so that the relationships
# between two named entities come before all else; low enough that a line with the asked words
# outranks a distant neighbour.
_PULL = 3
# From so many times more relationships than there is room for, those to walk are chosen.
_CHOICE_FACTOR = 4
# Beyond `depth`, hops are walked until so many lines are near: as many as fill a large window.
_MAX_LINES_NEARBY = 512

_Edges = dict[int, tuple[str, str]]
"""Ordinals of relationships, each with the entity that it was reached from and its other end."""


class GraphIndex:
    """Items by ordinal; those whose metadata holds an entity or a relationship make a graph.

    See `GraphRanker`.
    """

    def __init__(
        self,
        *,
        depth: int,
        hub: int,
        max_relationships: int,
        words: Index,
    ) -> None:
        self._depth = depth
        self._hub = hub
        self._max_relationships = max_relationships
        self._words = words
        self.is_exact = getattr(words, "is_exact", False)  # one division a line is added to these
        self.is_quick = getattr(words, "is_quick", False)
        self._items: dict[int, Item] = {}
        self._described: dict[
            str, list[int]
        ] = {}  # entity -> ordinals of the items that describe it
        self._mentions = Mentions()

    @cached_property
    def _graph(self) -> Any:
        """Entities by id, and their relationships by ordinal, made with the first of them."""
        from networkx import MultiGraph

        return MultiGraph()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        new = check_new(entries, self._items)
        self._words.add(new)
        for ordinal, item in new:
            self._attach(ordinal, item)

    def update(self, ordinal: int, item: Item) -> None:
        self._detach(ordinal)
        self._words.update(ordinal, item)
        self._attach(ordinal, item)

    def remove(self, ordinal: int) -> None:
        self._detach(ordinal)
        self._words.remove(ordinal)

    def rank(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> Scored:
        wanted = max(limit, self._max_relationships)
        found = self._words.rank(query, wanted)
        near = self._near(query, dict(found[: self._max_relationships]))
        if found:
            best_score = found[0][1]
        else:
            best_score = 1.0
        pull = _PULL * best_score
        if among is not None:
            among = frozenset(among)
            near = {ordinal: steps for ordinal, steps in near.items() if ordinal in among}
            wanted = limit
            found = self._words.rank(query, limit, among=among)
        if not near:
            return found[: max(limit, 0)]
        scores = dict(found)
        if len(found) >= wanted:  # else no other line has a word of the query
            others = [ordinal for ordinal in near if ordinal not in scores]
            scores |= self._words.rank(query, len(others), among=others)
        for ordinal, steps in near.items():
            scores[ordinal] = scores.get(ordinal, 0.0) + pull / (1 + steps)
        size = len(scores)
        ordinals = np.fromiter(scores, np.int64, size)
        values = np.fromiter(scores.values(), np.float64, size)
        return best(ordinals, values, limit)

    def neighbourhood(self, entity: str, depth: int) -> tuple[list[Item], list[Item]]:
        """Return the items of the entities within `depth` hops and of the relationships on the way.

        The nearest entities come first. Equally near entities, and the relationships, come in
        stored order. Around an unknown entity there is nothing.
        """
        from networkx import single_source_shortest_path_length

        if entity not in self._graph:
            return [], []
        hops: dict[str, int] = single_source_shortest_path_length(self._graph, entity, cutoff=depth)
        entities = []
        for each, n in hops.items():
            entities += [(n, ordinal) for ordinal in self._described.get(each, ())]
        walked = [each for each, n in hops.items() if n < depth]
        relationships = sorted(self._edges_of(walked))
        return [self._items[ordinal] for _, ordinal in sorted(entities)], [
            self._items[each] for each in relationships
        ]

    def _near(self, query: str, worded: Mapping[int, float]) -> dict[int, float]:
        """Return the steps of lines from the nearest entity that a query names, by ordinal.

        Args:
            worded: Scores of the best lines by words alone.
        """
        named = sorted(self._mentions.entities_in(query), key=self._recency, reverse=True)
        frontier = named[: self._max_relationships]
        left = self._max_relationships
        hops = dict.fromkeys(frontier, 0)
        near: dict[int, float] = {}
        for hop in count():
            for each in frontier:
                near |= dict.fromkeys(self._described.get(each, ()), 2 * hop + 0.5)
            if hop >= self._depth:  # spare room alone is filled
                left = min(left, _MAX_LINES_NEARBY - len(near))
            if not frontier or left <= 0:
                break
            if hop < self._depth - 1:
                room = (left + 1) // 2
            else:
                room = left
            through = [
                each for each in frontier if not hop or len(self._graph.adj[each]) <= self._hub
            ]
            choice = _CHOICE_FACTOR if hop < self._depth else 1
            edges = self._edges_of(through, besides=near, enough=choice * room if hop else None)
            chosen = _chosen(edges, room, hops, worded)
            left -= len(chosen)
            reached = dict.fromkeys(edges[ordinal][1] for ordinal in chosen)
            frontier = [each for each in reached if each not in hops]
            hops |= dict.fromkeys(frontier, hop + 1)
            for ordinal in chosen:
                one, other = edges[ordinal]
                near[ordinal] = hops[one] + hops[other]
        return near

    def _edges_of(
        self,
        entities: Iterable[str],
        *,
        besides: Collection[int] = (),
        enough: int | None = None,
    ) -> _Edges:
        """Return the relationships of entities, of one after another until there are enough."""
        edges: _Edges = {}
        for entity in entities:
            if enough is not None and len(edges) >= enough:
                break
            edges |= (
                (ordinal, (entity, other))
                for _, other, ordinal in self._graph.edges(entity, keys=True)
                if ordinal not in besides
            )
        return edges

    def _recency(self, entity: str) -> tuple[int, str]:
        return max(self._described.get(entity, (-1,))), entity

    def _attach(self, ordinal: int, item: Item) -> None:
        self._items[ordinal] = item
        match graph_part_of(item.metadata):
            case Entity() as entity:
                self._know(entity.id)
                if entity.id not in self._described:
                    self._mentions.discard(safe_line(entity.id), entity.id)
                self._described.setdefault(entity.id, []).append(ordinal)
                for name in entity.names:
                    self._mentions.add(name, entity.id)
            case Relationship() as relationship:
                self._know(relationship.source)
                self._know(relationship.target)
                self._graph.add_edge(relationship.source, relationship.target, key=ordinal)

    def _detach(self, ordinal: int) -> None:
        if ordinal not in self._items:
            raise unknown_ordinal(ordinal)
        match graph_part_of(self._items.pop(ordinal).metadata):
            case Entity(id=entity_id) as entity:
                describing = self._described[entity_id]
                describing.remove(ordinal)
                for name in entity.names:
                    self._mentions.discard(name, entity_id)
                if not describing:
                    del self._described[entity_id]
                    self._mentions.add(safe_line(entity_id), entity_id)
                self._forget(entity_id)
            case Relationship() as relationship:
                self._graph.remove_edge(relationship.source, relationship.target, key=ordinal)
                self._forget(relationship.source)
                self._forget(relationship.target)

    def _know(self, entity: str) -> None:
        """Take an entity into the graph; while nothing describes it, its id is its name."""
        if entity not in self._graph:
            self._graph.add_node(entity)
            self._mentions.add(safe_line(entity), entity)

    def _forget(self, entity: str) -> None:
        """Take an entity that nothing describes and nothing is related to out of the graph."""
        if entity in self._graph and entity not in self._described and not self._graph.adj[entity]:
            self._graph.remove_node(entity)
            self._mentions.discard(safe_line(entity), entity)


def _chosen(
    edges: _Edges,
    room: int,
    hops: Mapping[str, int],
    worded: Mapping[int, float],
) -> list[int]:
    """Return at most `room` of the relationships in the order in which they are walked."""
    size = len(edges)
    ordinals = np.fromiter(edges, np.int64, size)
    words = np.fromiter(map(worded.get, edges, repeat(0.0)), np.float64, size)
    are_within = (other in hops for _, other in edges.values())
    within = np.fromiter(are_within, np.bool_, size)
    best_first = np.lexsort((ordinals, words, within))[::-1]
    chosen: list[int] = ordinals[best_first[:room]].tolist()
    return chosen
