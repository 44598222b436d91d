"""Every corpus passes the contract."""

from __future__ import annotations

import pytest

from kaosmem.corpora import Corpus, InMemoryCorpus, LanceCorpus
from kaosmem.testing import CorpusContract


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
