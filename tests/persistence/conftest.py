from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Somewhere to keep sessions: a folder, or a filesystem of objects."""
    return str(tmp_path / "root") if request.param == "local" else IsolatedMemoryFileSystem()
