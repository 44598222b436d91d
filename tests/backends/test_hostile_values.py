"""Hostile values in the stores of one folder. Those of servers meet them in their own modules."""

from contextlib import asynccontextmanager

import pytest

from kaosmem.backends import open_stores
from tests.backends.hostile_values import HostileValues


class TestHostileValuesInAFolder(HostileValues):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    @asynccontextmanager
    async def given(self):
        async with open_stores(self.folder) as opened:
            kinds = ("history", "state", "facts", "vectors", "graph", "tasks", "files")
            yield {kind: getattr(opened, kind) for kind in kinds}
