import pytest

import kaosmem.persistence.log as log_module
from kaosmem.sections import lazy_index
from tests.session.erasing import Failing


@pytest.fixture
def small_snapshots(monkeypatch):
    """Snapshots come early, so that there are several, with archives, in a short session; all indexes are kept."""
    monkeypatch.setattr(log_module, "MIN_LOG_BYTES", 1_000)
    monkeypatch.setattr(lazy_index, "MIN_STORED", 2)


@pytest.fixture
def failing(monkeypatch):
    monkeypatch.setattr("kaosmem.persistence.storage.local.LocalStorage", Failing)
    yield Failing
    Failing.refused = staticmethod(lambda step: False)
