"""Every corpus passes the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kaosmem.corpora import Corpus, InMemoryCorpus, LanceCorpus, PgCorpus
from kaosmem.testing import CorpusContract
from tests.corpora.places import pg_schema


class TestInMemoryCorpus(CorpusContract):
    async def make(self) -> Corpus:
        return InMemoryCorpus()


class TestLanceCorpusInAFolder(CorpusContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.folder = tmp_path_factory.mktemp("lance")

    async def make(self) -> Corpus:
        return LanceCorpus(self.folder, timeout_s=60)

    async def reopen(self, corpus: Corpus) -> Corpus:
        return LanceCorpus(self.folder, timeout_s=60)


class TestPgCorpus(CorpusContract):
    """With pg_textsearch, whose figures count passages that are gone until they are compacted."""

    extension = "pg_textsearch"
    is_exact = False

    @pytest.fixture(autouse=True)
    def _schema(self, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kaosmem.corpora.postgres._EXTENSION", self.extension)
        self.url = postgres
        self.schema = pg_schema()

    @pytest_asyncio.fixture(autouse=True)
    async def _closed(self) -> AsyncIterator[None]:
        self.opened: list[Corpus] = []
        yield
        for each in self.opened:
            await each.close()

    async def make(self) -> Corpus:
        corpus = PgCorpus(self.url, schema=self.schema)
        self.opened.append(corpus)
        return corpus

    async def reopen(self, corpus: Corpus) -> Corpus:
        return await self.make()


class TestPgCorpusWithoutAnExtension(TestPgCorpus):
    extension = "none"
    is_exact = True
