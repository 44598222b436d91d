"""No time passes for the model checker: a client that pauses only makes a test longer."""

import pytest

from kaosmem.persistence.storage import objects


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(objects, "_PAUSES_S", (0.0, 0.0, 0.0))
