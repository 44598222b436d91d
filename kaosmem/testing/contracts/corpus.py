"""The contract of every Corpus."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from kaosmem.corpora.corpus import Corpus
from kaosmem.corpora.in_memory import InMemoryCorpus
from kaosmem.errors import (
    DuplicateError,
    InvalidArgumentError,
    InvalidNameError,
    NotFoundError,
    ReadOnlyError,
)
from kaosmem.filters import MetadataFilter, parse_filter
from kaosmem.language.analysis import analyze
from kaosmem.testing.contracts.store import IDS, NO_IDS, refuses, wrong
from kaosmem.testing.contracts.vector import FILTERS, METADATA
from kaosmem.types.items import Item

_WORDS = (
    *("rent", "notice", "deposit", "garden", "lease", "euro", "tenant", "repair"),
    *("heating", "2024", "größe", "契約", "c++", "i.e."),
)
_TENANTS = ("a", "A", "a-b", "a.b", "a_b", "a+b", "con", "x" * 128, "a@")
_HOSTILE = ("x' OR '1'='1", "'; DROP TABLE passages; --", "%", "\\'", "${x}", "a\\", "{}")
_NOT_TENANTS = ("", "..", "a/b", "a'; --", "a\x00", "x" * 129, None, 5)


def passage(
    id: str,
    text: str,
    source: str = "s",
    /,
    **fields: Any,
) -> dict[str, Any]:
    """Return a passage as a mapping."""
    return {"id": id, "text": text, "source": source, "metadata": fields}


async def filled(corpus: Corpus) -> list[Item]:
    """Add passages with all kinds of metadata, and return them as the corpus holds them."""
    fields: list[dict[str, Any]] = [*METADATA.values()]
    for k in ("a", "b", 1, 2, True, None, ["a", "b"], [["a"], "b"]):
        fields += [{"k": k, "j": "a"}, {"k": k, "j": 1}, {"k": k, "j": [k]}]
    passages = [
        {**passage(f"p{n}", "rent", each.get("source", "none")), "metadata": each}
        for n, each in enumerate(fields)
    ]
    await corpus.add(passages)
    return list(await corpus.get([each["id"] for each in passages]))


async def check_filter(
    corpus: Corpus,
    held: Sequence[Item],
    given: dict[str, Any],
) -> None:
    """Assert that a filter finds the passages, among all, that a section lets through."""
    wanted = parse_filter(given)
    expected = {each.id for each in held if wanted(each.metadata)}
    assert set(await _ids(corpus, "rent", wanted)) == expected, given


class CorpusContract:
    """Every Corpus passes this: subclass it and provide `make`, an empty corpus.

    Attributes:
        is_exact: Whether the engine proposes the same passages as BM25 over all of them.
    """

    pytestmark = pytest.mark.asyncio
    is_exact = True

    async def make(self) -> Corpus:
        """Return an empty corpus of the tenant `default`."""
        raise NotImplementedError

    async def reopen(self, corpus: Corpus) -> Corpus:
        """Return the same corpus as another process would open it."""
        return corpus

    @pytest_asyncio.fixture
    async def corpus(self) -> AsyncIterator[Corpus]:
        corpus = await self.make()
        yield corpus
        await corpus.close()

    async def test_satisfies_the_protocol(self, corpus):
        """It has every member of the Protocol."""
        assert isinstance(corpus, Corpus)
        assert corpus.tenant == "default"

    async def test_an_empty_corpus_answers(self, corpus):
        """An empty corpus has no source and no tenant. Removing and erasing are no errors."""
        assert await _ids(corpus, "rent") == []
        assert await corpus.get(["a"]) == []
        assert await corpus.sources() == {}
        assert await corpus.tenants() == []
        statistics = await corpus.statistics(["rent"])
        assert (statistics.entries, statistics.frequencies) == (0, {"rent": 0})
        assert (await corpus.remove("s")).gone == 0
        assert (await corpus.erase("s")).gone == 0
        await corpus.compact()
        await corpus.erase_tenant()

    async def test_a_passage_is_found_at_once_and_unchanged(self, corpus):
        """All that was given comes back, also in another process.

        No id, source or value of a filter is read as a condition.
        """
        given: dict[str, dict[str, Any]] = {}
        for each in (*IDS, *_HOSTILE):
            metadata = {"owner": each, "nested": {"list": [1, None, "x"]}, "file": "stamp"}
            text = f"größe ☃ 契約 rent {len(given)}\n  indented"
            fields = passage(each, text, f"source {each}"[-200:], **metadata)
            given[each] = {**fields, "role": "user"}
        await corpus.add(given.values())
        for held in (corpus, await self.reopen(corpus)):
            found = {one.id: one for one in await held.get([*given])}
            assert found.keys() == given.keys()
            for name, fields in given.items():
                expected = {**fields["metadata"], "source": fields["source"]}
                assert (found[name].text, found[name].role) == (fields["text"], "user")
                assert found[name].metadata == expected
            assert set(await _ids(held, "rent")) == given.keys()
            assert await held.sources() == {one["source"]: "stamp" for one in given.values()}
        for each in _HOSTILE:
            assert await _ids(corpus, "rent", parse_filter({"owner": each})) == [each]
            assert [one.id for one in await corpus.get([each])] == [each]
            assert (await corpus.remove(f"source {each}")).gone == 1
        assert set(await _ids(corpus, "rent")) == {*IDS}

    async def test_a_source_is_found_by_its_name(self, corpus):
        """A passage is found by words of its source's name, which are no words of its text."""
        await corpus.add([passage("a", "rent", "Garden lease.md"), passage("b", "garden", "t")])
        await corpus.compact()
        assert await _ids(corpus, "lease") == ["a"]
        assert set(await _ids(corpus, "garden")) == {"a", "b"}
        statistics = await corpus.statistics(["garden", "rent"])
        assert (statistics.terms, statistics.frequencies) == (2, {"garden": 1, "rent": 1})

    async def test_bad_input_is_refused_and_changes_nothing(self, corpus):
        """Ids, sources, texts and metadata are checked before anything is written."""
        fine = passage("x", "rent")
        refused = (
            *wrong({"id": "x"}, "text", 5, {**fine, "page": 3}, {**fine, "text": b"bytes"}),
            *wrong(passage("x", "rent", day=object())),
            *wrong(*({**fine, "id": bad} for bad in NO_IDS), error=InvalidNameError),
            *wrong(passage("fine", "notice"), error=DuplicateError),
        )
        for error, bad in refused:
            await refuses(error, corpus.add([passage("fine", "rent"), bad]))
        await refuses(InvalidArgumentError, corpus.replace("other", [fine]))
        assert await _ids(corpus, "rent") == []

    async def test_versions_hold_what_was_true_then(self, corpus):
        """Adding, replacing and removing make versions, and each older one stays as it was."""
        first, _ = await corpus.add([passage("a", "rent one"), passage("b", "rent two")])
        change = await corpus.replace("s", [passage("b", "rent three"), passage("c", "rent four")])
        assert change.gone == 2
        second = change.version
        await corpus.replace(["t", "u"], [passage("d", "rent five", "t")])
        assert (await corpus.remove("s")).gone == 2
        assert await _texts(corpus, "rent") == {"d": "rent five"}
        assert await _texts(corpus.at(second), "rent") == {"b": "rent three", "c": "rent four"}
        assert await _texts(corpus.at(first), "rent") == {"a": "rent one", "b": "rent two"}
        kept = {each.number: each.at for each in await corpus.versions()}
        assert {first, second} <= kept.keys()
        assert await _texts(corpus.at(kept[first]), "rent") == await _texts(
            corpus.at(first), "rent"
        )
        for moment in (10**6, "1999-01-01"):
            await refuses(NotFoundError, corpus.at(moment).candidates(["rent"]))
        await refuses(ReadOnlyError, corpus.at(first).add([passage("x", "rent")]))
        await corpus.compact()
        assert await _texts(corpus.at(first), "rent") == {"a": "rent one", "b": "rent two"}

    async def test_statistics_are_those_of_all_passages(self, corpus):
        """After a compaction, counts are those of the present passages. Those of a version stay."""
        rng = random.Random(7)
        held: dict[str, dict[str, Any]] = {}
        for step in range(8):
            source = f"s{rng.randrange(3)}"
            names = rng.sample(range(12), k=4)
            new = {f"p{name}": passage(f"p{name}", _text(rng), source) for name in names}
            if step % 2:
                await corpus.replace(source, list(new.values()))
                held = {name: each for name, each in held.items() if each["source"] != source}
            else:
                await corpus.add(list(new.values()))
            held |= new
            if step in (3, 6):
                await corpus.compact()
        await corpus.compact()
        length = 0
        expected = Counter({"unknown": 0})
        for each in held.values():
            terms = analyze(each["text"])
            length += len(terms)
            expected.update(set(terms))
        statistics = await corpus.statistics(list(expected))
        assert (statistics.entries, statistics.terms) == (len(held), length)
        assert statistics.frequencies == dict(expected)
        version = (await corpus.versions())[-1].number
        await corpus.add([passage("new", "unknown")])
        await corpus.compact()
        assert (await corpus.statistics(["unknown"])).frequencies == {"unknown": 1}
        other = await self.reopen(corpus)
        assert await other.at(version).statistics(list(expected)) == statistics

    async def test_filters_mean_what_they_mean_in_a_section(self, corpus):
        """Among many passages, a filter finds those that a section lets through, and no other."""
        held = await filled(corpus)
        for given, _ in FILTERS:
            await check_filter(corpus, held, given)

    async def test_tenants_never_mix(self, corpus):
        """Each tenant sees its own passages and counts. Erasing one tenant spares the others."""
        for tenant in _TENANTS:
            own = corpus.for_tenant(tenant)
            await own.add([passage("same", f"rent of {tenant}", "s")])
            await own.compact()
        assert await corpus.tenants() == sorted(_TENANTS)
        for tenant in _TENANTS:
            own = corpus.for_tenant(tenant)
            assert await _texts(own, "rent") == {"same": f"rent of {tenant}"}
            assert (await own.statistics(["rent"])).frequencies == {"rent": 1}
        await corpus.for_tenant("A").erase("s")
        await corpus.for_tenant("a-b").erase_tenant()
        left = [each for each in _TENANTS if each not in ("A", "a-b")]
        assert await corpus.tenants() == sorted(["A", *left])
        for tenant in left:
            assert await _texts(corpus.for_tenant(tenant), "rent") == {"same": f"rent of {tenant}"}
        for bad in _NOT_TENANTS:
            with pytest.raises(InvalidNameError):
                corpus.for_tenant(bad)

    async def test_an_erasure_leaves_no_version(self, corpus):
        """Erased passages are in no version and no count; the rest is found."""
        first, _ = await corpus.add(
            [passage("a", "rent secret"), passage("b", "rent"), passage("c", "rent", "t")]
        )
        await corpus.compact()
        assert (await corpus.erase("s", ids=["unknown"], alone=True)).gone == 2
        assert await _ids(corpus, "rent") == ["c"]
        assert (await corpus.statistics(["secret"])).frequencies == {"secret": 0}
        await refuses(NotFoundError, corpus.at(first).candidates(["rent"]))
        await corpus.add([passage("a", "rent again")])
        change = await corpus.erase(ids=["c"])
        assert [each.number for each in await corpus.versions()] == [change.version]
        assert await _ids(corpus, "rent") == ["a"]

    async def test_the_engine_proposes_what_matches_best(self, corpus):
        """Among 400 passages, the best by BM25 over all of them are among the candidates."""
        rng = random.Random(5)
        given = [passage(f"p{n:03}", _text(rng, 30), f"s{n % 7}") for n in range(400)]
        model = InMemoryCorpus()
        await model.add(given)
        await corpus.add(given)
        await corpus.compact()
        for query in ("rent notice deposit", "契約 größe", "heating repair 2024", "c++"):
            terms = analyze(query)
            best = [each.id for each in (await model.candidates(terms, limit=20)).found]
            among = await corpus.candidates(terms, limit=60)
            assert len(among.found) <= 60
            missing = set(best) - {each.id for each in among.found}
            assert not missing if self.is_exact else len(missing) <= 4, query
            expected = (await model.candidates(terms)).statistics
            assert among.statistics == expected

    async def test_readers_see_whole_versions(self, corpus):
        """While sources are replaced and erased, each question sees one whole version."""
        pairs = [
            passage(f"{n}-{half}", f"rent round0 {half}", f"s{n}")
            for n in range(4)
            for half in "xy"
        ]
        await corpus.add(pairs)
        is_done = asyncio.Event()

        async def write():
            for number in range(1, 5):
                for n in range(4):
                    new = [
                        passage(f"{n}-{half}", f"rent round{number} {half}", f"s{n}")
                        for half in "xy"
                    ]
                    await corpus.replace(f"s{n}", new)
                await corpus.compact()
            await corpus.erase("s0")
            is_done.set()

        async def read():
            reader = await self.reopen(corpus)
            while not is_done.is_set():
                texts = await _texts(reader, "rent")
                for n in range(4):
                    halves = [texts[each] for each in (f"{n}-x", f"{n}-y") if each in texts]
                    assert len(halves) in (0, 2)
                    assert len({text.split()[1] for text in halves}) <= 1
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())
        assert not any(each.startswith("0-") for each in await _ids(corpus, "rent"))

    async def test_two_writers_lose_nothing(self, corpus):
        """Writers of different sources, and compactions at the same time, keep every passage."""
        other = await self.reopen(corpus)

        async def write(own, name):
            for number in range(4):
                await own.replace(
                    f"{name}{number}", [passage(f"{name}{number}", "rent", f"{name}{number}")]
                )

        await asyncio.gather(write(corpus, "a"), write(other, "b"), write(corpus, "c"))
        await asyncio.gather(corpus.compact(), other.compact(), write(corpus, "d"))
        await corpus.compact()
        expected = {f"{name}{number}" for name in "abcd" for number in range(4)}
        assert set(await _ids(corpus, "rent")) == expected
        assert (await corpus.statistics(["rent"])).frequencies == {"rent": 16}


async def _ids(
    corpus: Corpus,
    words: str,
    wanted: MetadataFilter | None = None,
) -> list[str]:
    return [each.id for each in await _found(corpus, words, wanted)]


async def _texts(corpus: Corpus, words: str) -> dict[str, str]:
    return {each.id: each.text for each in await _found(corpus, words)}


async def _found(
    corpus: Corpus,
    words: str,
    wanted: MetadataFilter | None = None,
) -> Sequence[Item]:
    return (await corpus.candidates(analyze(words), filter=wanted)).found


def _text(rng: random.Random, size: int = 5) -> str:
    weights: Iterable[float] = (1 / (n + 1) for n in range(len(_WORDS)))
    return " ".join(rng.choices(_WORDS, weights=list(weights), k=size))
