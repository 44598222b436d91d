"""The contract of every Ranker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kaosmem.retrieval import Index
from kaosmem.retrieval.ranker import Ranker
from kaosmem.sections.spec import SectionSpec
from kaosmem.session.memory import SessionMemory
from kaosmem.types.items import Item

_WORDS = ["lease", "tenant", "rent", "deposit", "notice", "breach", "cure", "term"]
_texts = st.lists(st.sampled_from(_WORDS), max_size=8).map(" ".join)
_entries = st.dictionaries(st.integers(0, 60), _texts, max_size=40)
_changes = st.lists(st.tuples(st.integers(0, 60), st.none() | _texts), max_size=12)


def entries_of(texts: Mapping[int, str] | Iterable[tuple[int, str]]) -> list[tuple[int, Item]]:
    """Return texts by ordinal as the entries that an index takes."""
    return [(ordinal, item_of(text)) for ordinal, text in dict(texts).items()]


def item_of(text: str) -> Item:
    """Return an item of a text."""
    return Item("a", "notes", "", text, len(text.split()), datetime(2024, 1, 1, tzinfo=UTC))


class RankerContract:
    """Every Ranker passes this: subclass it and provide `make`.

    class TestMyRanker(RankerContract):
        def make(self):
            return MyRanker()

    Do not override a test.

    Attributes:
        scores_each_alone: Whether the score of an entry does not depend on the ordinals that it is
            chosen among.
        examples: Number of indexes that are tried.
    """

    scores_each_alone: ClassVar[bool] = True
    examples: ClassVar[int] = 40

    def make(self) -> Ranker:
        """Return the ranker."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a method `make` that returns a ranker"
        )

    def index(self, entries: Mapping[int, str]) -> Index:
        """Return a new index of texts by ordinal."""
        index = self.make().index()
        index.add(entries_of(entries))
        return index

    def test_it_is_a_ranker(self):
        """It has a name and makes empty indexes, each of its own."""
        ranker = self.make()
        assert isinstance(ranker, Ranker)
        assert ranker.name
        ranker.index().add(entries_of({0: "lease"}))
        assert len(ranker.index()) == 0

    def test_best_come_first_and_equals_newest_first(self):
        """More words of the query rank higher. Of equal texts, the newest comes first."""
        same = "rent and notice"
        others = dict.fromkeys(range(10, 30), "breach without cure")
        index = self.index({3: same, 9: same, 5: same, 4: "deposit, rent and notice", **others})
        ranked = index.rank("notice of deposit", 10)
        assert [ordinal for ordinal, _ in ranked] == [4, 9, 5, 3]
        assert index.rank("notice of deposit", 2) == ranked[:2]
        assert index.rank("notice of deposit", 0) == []

    def test_nothing_is_found_without_a_known_word(self):
        """An empty index, an empty query and unknown words all find nothing."""
        assert self.make().index().rank("lease", 10) == []
        index = self.index({0: "", 2: "lease", 3: "rent", 4: "rent"})
        assert index.rank("", 10) == index.rank("zebra", 10) == []
        assert [ordinal for ordinal, _ in index.rank("lease zebra", 10)] == [2]

    def test_a_removed_entry_is_gone_and_its_ordinal_free(self):
        """After a removal nothing finds the entry; an index emptied is as good as new."""
        index = self.index({0: "lease", 1: "violin", 2: "deposit"})
        assert [ordinal for ordinal, _ in index.rank("lease", 10)] == [0]
        index.remove(0)
        assert index.rank("lease", 10) == []
        index.remove(2)
        index.remove(1)
        assert len(index) == 0
        assert index.rank("violin", 10) == []
        index.add(entries_of({0: "notice", 1: "violin", 2: "cure"}))
        assert [ordinal for ordinal, _ in index.rank("notice", 10)] == [0]

    def test_an_updated_entry_is_found_by_its_new_text_alone(self):
        """After an update the old words find nothing, and the new ones the entry."""
        index = self.index({0: "lease", 1: "violin", 2: "deposit"})
        assert index.rank("notice", 10) == []
        index.update(0, item_of("notice"))
        assert index.rank("lease", 10) == []
        assert [ordinal for ordinal, _ in index.rank("notice", 10)] == [0]

    def test_the_changes_that_led_to_the_entries_leave_no_trace(self):
        """The same entries and query give the same answer; scores fall and are above 0."""

        @settings(
            max_examples=self.examples, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(_entries, _changes, _texts)
        def check(
            entries,
            changes,
            query,
        ):
            index = self.index(entries)
            left = dict(entries)
            for ordinal, text in changes:
                if text is None and ordinal in left:
                    index.remove(ordinal)
                    del left[ordinal]
                elif text is not None and ordinal in left:
                    index.update(ordinal, item_of(text))
                    left[ordinal] = text
            ranked = index.rank(query, len(left))
            assert ranked == self.index(left).rank(query, len(left))
            order = [(score, ordinal) for ordinal, score in ranked]
            assert order == sorted(order, reverse=True)
            assert all(score > 0 for score, _ in order)

        check()

    def test_ranking_among_some_leaves_the_others_out(self):
        """Only the given ordinals are found. Repeated and unknown ones change nothing."""

        @settings(
            max_examples=self.examples, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(
            _entries,
            st.lists(st.integers(0, 60) | st.just(2**80), max_size=40),
            _texts,
            st.integers(0, 40),
        )
        def check(
            entries,
            among,
            query,
            limit,
        ):
            index = self.index(entries)
            ranked = index.rank(query, limit, among=among)
            assert ranked == index.rank(query, limit, among=set(among))
            assert {ordinal for ordinal, _ in ranked} <= {*among} & entries.keys()
            if self.scores_each_alone:
                chosen = [each for each in index.rank(query, len(entries)) if each[0] in among]
                assert ranked == chosen[:limit]

        check()

    def test_a_section_ranks_by_it(self):
        """A section with the ranker shows the items that match the query first."""
        spec = SectionSpec("notes", ranker=self.make(), retrieval_threshold=0)
        memory = SessionMemory.test_mode(sections=(spec,))
        memory.add_many("notes", [f"The {word} is due in May." for word in _WORDS])
        context = asyncio.run(memory.assemble_context("the deposit", budget=16))
        assert [item.text for item in context.items] == ["The deposit is due in May."]
