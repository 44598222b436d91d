"""Pytest's settings for tests, benchmarks and examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("soak", settings.get_profile("default"), max_examples=2_000)
settings.load_profile("default")

OPT_IN = ("timed", "soak")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long or measures time, unless the marker is asked for with -m."""
    asked = config.getoption("-m")
    if "soak" in asked:
        settings.load_profile("soak")
    left_out = [
        item for item in items if any(item.get_closest_marker(marker) for marker in OPT_IN if marker not in asked)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
