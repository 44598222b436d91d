"""Every corpus passes one contract. An engine of your own is one more subclass here."""

import asyncio
import random
from collections import Counter

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings

from kaosmem import SessionMemory
from kaosmem.corpora import Corpus, CorpusSource, InMemoryCorpus, LanceCorpus, PgCorpus
from kaosmem.errors import (
    DuplicateError,
    InvalidArgumentError,
    InvalidNameError,
    NotFoundError,
    ReadOnlyError,
)
from kaosmem.filters import parse_filter
from kaosmem.language.analysis import analyze
from kaosmem.testing.contracts.store import IDS, refuses
from kaosmem.testing.contracts.vector import FILTERS, METADATA
from tests.corpora.places import passage, pg_schema
from tests.stores.compared import filters
from tests.stores.test_refusals import NO_IDS, wrong

_WORDS = (
    *("rent", "notice", "deposit", "garden", "lease", "euro", "tenant", "repair"),
    *("heating", "2024", "größe", "契約", "c++", "i.e."),
)
_TENANTS = ("a", "A", "a-b", "a.b", "a_b", "a+b", "con", "x" * 128, "a@")
_HOSTILE = ("x' OR '1'='1", "'; DROP TABLE passages; --", "%", "\\'", "${x}", "a\\", "{}")
_NOT_TENANTS = ("", "..", "a/b", "a'; --", "a\x00", "x" * 129, None, 5)


async def filled(corpus):
    """Add passages with all kinds of metadata, and return them as the corpus holds them."""
    fields = [*METADATA.values()]
    for k in ("a", "b", 1, 2, True, None, ["a", "b"], [["a"], "b"]):
        fields += [{"k": k, "j": "a"}, {"k": k, "j": 1}, {"k": k, "j": [k]}]
    passages = [
        {**passage(f"p{n}", "rent", each.get("source", "none")), "metadata": each}
        for n, each in enumerate(fields)
    ]
    await corpus.add(passages)
    return await corpus.get([each["id"] for each in passages])


async def check_filter(corpus, held, given):
    """Assert that a filter finds the passages, among all, that a section lets through."""
    wanted = parse_filter(given)
    expected = {each.id for each in held if wanted(each.metadata)}
    assert set(await _ids(corpus, "rent", wanted)) == expected, given


class CorpusContract:
    """Every Corpus passes this: subclass it and provide `make`, an empty corpus.

    Attributes:
        is_exact: Whether the engine proposes the same passages as BM25 over all of them.
    """

    is_exact = True

    async def reopen(self, corpus):
        """Return the same corpus as another process would open it."""
        return corpus

    @pytest_asyncio.fixture
    async def corpus(self):
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
        given = {}
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
        held = {}
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
        for wanted, _ in FILTERS:
            await check_filter(corpus, held, wanted)

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

    async def test_any_filter_means_what_it_means_in_a_section(self, corpus):
        """A random filter finds the passages that a section lets through."""
        held = await filled(corpus)
        loop = asyncio.get_running_loop()

        @settings(
            max_examples=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(filters)
        def check(wanted):
            checking = check_filter(corpus, held, wanted)
            asyncio.run_coroutine_threadsafe(checking, loop).result()

        await asyncio.to_thread(check)

    async def test_a_session_shows_the_same_bytes(self, corpus):
        """The same candidates give the same context, whichever corpus proposed them."""
        rng = random.Random(11)
        given = []
        for n in range(120):
            words = " ".join(rng.choices(_WORDS, k=12))
            given.append(passage(f"p{n:03}", f"repair {words}", f"s{n % 5}"))
        model = InMemoryCorpus()
        texts = []
        for each in (model, corpus):
            await each.add(given)
            await each.compact()
            memory = SessionMemory.test_mode()
            await memory.attach(CorpusSource(each), timeout_s=60)
            for query in ("When must notice of a repair be given?", "repair of a garden in 2024"):
                context = await memory.assemble_context(query, budget=300)
                assert context.items
                texts.append(context.text)
        assert texts[:2] == texts[2:]

    async def test_a_session_forgets_in_the_corpus(self, corpus):
        """`forget` of a session erases the passage, and `verify` asks the corpus."""
        version, _ = await corpus.add([passage("a", "rent secret"), passage("b", "rent")])
        memory = SessionMemory.test_mode()
        await memory.attach(CorpusSource(corpus))
        context = await memory.assemble_context("rent", budget=200)
        assert {item.id for item in context.items} == {"corpus/a", "corpus/b"}
        receipt = await memory.forget("corpus/a")
        assert receipt.sources == {"corpus": ("corpus/a",)}
        assert await memory.admin.verify(receipt) == ()
        assert [each.id for each in (await corpus.candidates(["rent"])).found] == ["b"]
        with pytest.raises(NotFoundError):
            await corpus.at(version).candidates(["rent"])


async def _ids(corpus, words, wanted=None):
    return [each.id for each in await _found(corpus, words, wanted)]


async def _texts(corpus, words):
    return {each.id: each.text for each in await _found(corpus, words)}


async def _found(corpus, words, wanted=None):
    return (await corpus.candidates(analyze(words), filter=wanted)).found


def _text(rng, size=5):
    weights = [1 / (n + 1) for n in range(len(_WORDS))]
    return " ".join(rng.choices(_WORDS, weights=weights, k=size))


class TestInMemoryCorpus(CorpusContract):
    async def make(self):
        return InMemoryCorpus()


class TestLanceCorpusInAFolder(CorpusContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory):
        self.folder = tmp_path_factory.mktemp("lance")

    async def make(self):
        return LanceCorpus(self.folder, timeout_s=60)

    async def reopen(self, corpus):
        return LanceCorpus(self.folder, timeout_s=60)


class TestPgCorpus(CorpusContract):
    """With pg_textsearch, whose figures count passages that are gone until they are compacted."""

    extension = "pg_textsearch"
    is_exact = False

    @pytest.fixture(autouse=True)
    def _schema(self, postgres, monkeypatch):
        monkeypatch.setattr("kaosmem.corpora.postgres._EXTENSION", self.extension)
        self.url = postgres
        self.schema = pg_schema()

    @pytest_asyncio.fixture(autouse=True)
    async def _closed(self):
        self.opened = []
        yield
        for each in self.opened:
            await each.close()

    async def make(self):
        corpus = PgCorpus(self.url, schema=self.schema)
        self.opened.append(corpus)
        return corpus

    async def reopen(self, corpus):
        return await self.make()


class TestPgCorpusWithoutAnExtension(TestPgCorpus):
    extension = "none"
    is_exact = True
