"""The server that tests of corpora share."""

import pytest

from tests.servers import postgres_server


@pytest.fixture(scope="package")
def postgres():
    """Run PostgreSQL with pg_textsearch."""
    with postgres_server() as url:
        yield url
