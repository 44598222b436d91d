"""Folders and buckets for corpora."""

from __future__ import annotations

from itertools import count

from kaosmem.corpora import LanceCorpus
from tests.servers import S3

_numbers = count(1)


def pg_schema() -> str:
    """Return the name of a schema that no other test has."""
    return f"corpora{next(_numbers)}"


def s3_url(s3: S3) -> str:
    """Return an empty prefix of a bucket."""
    filesystem = s3.filesystem()
    filesystem.makedirs("corpora", exist_ok=True)
    return f"s3://corpora/{next(_numbers)}"


def s3_corpus(s3: S3, url: str, *, port: int | None = None, timeout_s: float = 60.0) -> LanceCorpus:
    """Return a corpus on an S3 server.

    Args:
        port: Another port of this machine that leads to the server.
    """
    options = {
        "aws_access_key_id": s3.key,
        "aws_secret_access_key": s3.secret,
        "region": "us-east-1",
        "endpoint": s3.url if port is None else f"http://127.0.0.1:{port}",
        "allow_http": "true",
    }
    return LanceCorpus(url, storage_options=options, timeout_s=timeout_s)
