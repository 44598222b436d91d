"""Places for corpora, and passages."""

from itertools import count

from kaosmem.corpora import LanceCorpus

_numbers = count(1)


def passage(id, text, source="s", /, **fields):
    """Return a passage as a mapping."""
    return {"id": id, "text": text, "source": source, "metadata": fields}


def pg_schema():
    """Return the name of a schema that no other test has."""
    return f"corpora{next(_numbers)}"


def s3_url(s3):
    """Return an empty prefix of a bucket."""
    filesystem = s3.filesystem()
    filesystem.makedirs("corpora", exist_ok=True)
    return f"s3://corpora/{next(_numbers)}"


def s3_corpus(s3, url, *, port=None, timeout_s=60.0):
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
        # By default the engine tries on for minutes, in threads that the end of a loop waits for.
        "client_max_retries": "2",
        "client_retry_timeout": "2",
    }
    return LanceCorpus(url, storage_options=options, timeout_s=timeout_s)
