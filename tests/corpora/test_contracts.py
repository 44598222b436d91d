"""Every corpus passes the contract."""

import asyncio
import random

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings

from kaosmem import SessionMemory
from kaosmem.corpora import CorpusSource, InMemoryCorpus, LanceCorpus, PgCorpus
from kaosmem.errors import NotFoundError
from kaosmem.testing import CorpusContract
from kaosmem.testing.contracts.corpus import check_filter, filled, passage
from tests.corpora.places import pg_schema
from tests.stores.compared import filters

WORDS = "rent notice deposit garden lease euro tenant heating 2024 größe".split()


class InSessions(CorpusContract):
    """The contract, and beside it any filter and sessions that show the corpus."""

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
            words = " ".join(rng.choices(WORDS, k=12))
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


class TestInMemoryCorpus(InSessions):
    async def make(self):
        return InMemoryCorpus()


class TestLanceCorpusInAFolder(InSessions):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory):
        self.folder = tmp_path_factory.mktemp("lance")

    async def make(self):
        return LanceCorpus(self.folder, timeout_s=60)

    async def reopen(self, corpus):
        return LanceCorpus(self.folder, timeout_s=60)


class TestPgCorpus(InSessions):
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
