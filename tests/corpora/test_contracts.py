"""Every corpus passes the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings

from kaosmem.corpora import Corpus, InMemoryCorpus, LanceCorpus, PgCorpus
from kaosmem.testing import CorpusContract
from kaosmem.testing.contracts.corpus import check_filter, filled
from tests.corpora.places import pg_schema
from tests.stores.compared import filters


class AnyFilter(CorpusContract):
    """The contract, and any filter beside it."""

    async def test_any_filter_means_what_it_means_in_a_section(self, corpus: Corpus) -> None:
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
        def check(wanted: dict[str, Any]) -> None:
            checking = check_filter(corpus, held, wanted)
            asyncio.run_coroutine_threadsafe(checking, loop).result()

        await asyncio.to_thread(check)


class TestInMemoryCorpus(AnyFilter):
    async def make(self) -> Corpus:
        return InMemoryCorpus()


class TestLanceCorpusInAFolder(AnyFilter):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.folder = tmp_path_factory.mktemp("lance")

    async def make(self) -> Corpus:
        return LanceCorpus(self.folder, timeout_s=60)

    async def reopen(self, corpus: Corpus) -> Corpus:
        return LanceCorpus(self.folder, timeout_s=60)


class TestPgCorpus(AnyFilter):
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
