"""The server that tests of corpora share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import postgres_server


@pytest.fixture(scope="package")
def postgres() -> Iterator[str]:
    """Run PostgreSQL with pg_textsearch."""
    with postgres_server() as url:
        yield url
