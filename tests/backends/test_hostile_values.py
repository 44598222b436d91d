"""Hostile values in the stores of one folder. Those of servers meet them in their own modules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kaosmem.backends import open_stores
from tests.backends.hostile_values import HostileValues


class TestHostileValuesInAFolder(HostileValues):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @asynccontextmanager
    async def given(self) -> AsyncIterator[dict[str, Any]]:
        async with open_stores(self.folder) as opened:
            kinds = ("history", "state", "facts", "vectors", "graph", "tasks", "files")
            yield {kind: getattr(opened, kind) for kind in kinds}
