"""No time passes for the model checker: a client that pauses only makes a test longer."""

from __future__ import annotations

import pytest

from kaosmem.persistence.storage import objects


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_PAUSES_S", (0.0, 0.0, 0.0))
