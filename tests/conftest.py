"""How many examples the properties are tried on: `--hypothesis-profile soak` takes minutes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("soak", settings.get_profile("default"), max_examples=2_000)
settings.load_profile("default")
