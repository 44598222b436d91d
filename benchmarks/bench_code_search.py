"""Questions on the installed standard library: at which rank the passage stands that defines what is asked for.

    pytest benchmarks/bench_code_search.py -m timed -s

The default run takes the modules that the questions are on, with their tests; the timed one the whole library.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.corpus import text_item
from kaosmem import BM25Ranker, LinearRanker
from kaosmem.ingest.files import SourceFile
from kaosmem.ingest.listing import find_files
from kaosmem.ingest.passages import read_passages
from kaosmem.retrieval.ranker import Ranker
from kaosmem.types.items import Item

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
QUESTIONS = {
    "What is the default size of functools.lru_cache?": ("functools.py", "def lru_cache"),
    "Which separators does json.dumps use?": ("json/__init__.py", "def dumps"),
    "What does textwrap.dedent do with tabs?": ("textwrap.py", "def dedent"),
    "Does shutil.copytree follow symbolic links?": ("shutil.py", "def copytree"),
    "How does heapq.nlargest treat n = 1?": ("heapq.py", "def nlargest"),
    "What does statistics.median return for an even number of values?": (
        "statistics.py",
        "def median",
    ),
    "Which arguments does subprocess.run take?": ("subprocess.py", "def run"),
    "Is the file of tempfile.NamedTemporaryFile deleted on close?": (
        "tempfile.py",
        "def NamedTemporaryFile",
    ),
    "How does random.shuffle work?": ("random.py", "def shuffle"),
    "What does OrderedDict.move_to_end raise?": ("collections/__init__.py", "def move_to_end"),
    "How is a collections.Counter made from a mapping?": (
        "collections/__init__.py",
        "class Counter",
    ),
    "What happens on a timeout in asyncio.wait_for?": ("asyncio/tasks.py", "def wait_for"),
    "How does inspect.signature follow wrapped functions?": ("inspect.py", "def signature"),
    "What is the cutoff of get_close_matches?": ("difflib.py", "def get_close_matches"),
    "What does urllib.parse.urlsplit return?": ("urllib/parse.py", "def urlsplit"),
    "Which delimiter does string.Template use?": ("string.py", "class Template"),
    "In which order does ExitStack call its callbacks?": ("contextlib.py", "class ExitStack"),
    "Which arguments does logging.basicConfig accept?": ("logging/__init__.py", "def basicConfig"),
    "Which arguments has argparse.ArgumentParser?": ("argparse.py", "class ArgumentParser"),
    "How is a threading.Timer cancelled?": ("threading.py", "class Timer"),
    "What is the default port of HTTPConnection?": ("http/client.py", "class HTTPConnection"),
    "Where is SequenceMatcher defined?": ("difflib.py", "class SequenceMatcher"),
    "What does bisect.insort_right do with equal values?": ("bisect.py", "def insort_right"),
    "How does fnmatch.translate treat brackets?": ("fnmatch.py", "def translate"),
    "What is http.client.HTTP_PORT?": ("http/client.py", "HTTP_PORT ="),
    "Which value has tarfile.BLOCKSIZE?": ("tarfile.py", "BLOCKSIZE ="),
    "What is COPY_BUFSIZE of shutil?": ("shutil.py", "COPY_BUFSIZE ="),
    "Which port is SMTP_SSL_PORT?": ("smtplib.py", "SMTP_SSL_PORT ="),
    "What is MAX_INTERPOLATION_DEPTH?": ("configparser.py", "MAX_INTERPOLATION_DEPTH ="),
    "Where is DEFAULT_TCP_LOGGING_PORT defined?": (
        "logging/handlers.py",
        "DEFAULT_TCP_LOGGING_PORT",
    ),
}
"""The file and the beginning of the definition, by question."""


def items_of(files: Iterable[SourceFile]) -> list[Item]:
    passages = (passage for reading in read_passages(files) for passage in reading.passages)
    return [replace(text_item(each.text), id=each.id, metadata=each.metadata) for each in passages]


@cache
def modules() -> list[Item]:
    """Return the passages of the modules that are asked about, and of their tests."""
    asked = {source for source, _ in QUESTIONS.values()}
    names = {re.sub(r"/__init__\.py$|\.py$", "", source).replace("/", "_") for source in asked}
    tests = {f"test/test_{name}.py" for name in names} | {
        f"test/test_{name.split('_')[0]}.py" for name in names
    }
    return items_of(file for file in library() if file.source in asked | tests)


@cache
def library() -> list[SourceFile]:
    files, _ = find_files(LIBRARY)
    return [
        file
        for file in files
        if file.source.endswith(".py") and not file.source.startswith("site-packages/")
    ]


def ranks(
    ranker: Ranker, items: list[Item], *, progress: Callable[[str], object] = id
) -> list[int]:
    """Return the rank of the definition for each question."""
    index = ranker.index()
    index.add(enumerate(items))
    found = []
    for question, (source, definition) in QUESTIONS.items():
        is_defined = re.compile(rf"^\s*(?:async )?{definition}(?!\w)", re.MULTILINE)
        hits = (
            rank
            for rank, (ordinal, _) in enumerate(index.rank(question, len(items)), 1)
            if items[ordinal].metadata["source"] == source
            and is_defined.search(items[ordinal].text)
        )
        found.append(next(hits, len(items)))
        progress(f"{found[-1]:6,}  {question}")
    return found


def mean_reciprocal(found: list[int]) -> float:
    return sum(1 / rank for rank in found) / len(found)


def test_definitions_come_first() -> None:
    """The definition is among the first three for nearly every question, far more often than by BM25."""
    ours = ranks(LinearRanker(), modules())
    plain = ranks(BM25Ranker(), modules())
    assert ours[0] <= 3
    assert sum(rank <= 3 for rank in ours) >= 0.9 * len(QUESTIONS)
    assert mean_reciprocal(ours) >= mean_reciprocal(plain) + 0.2


@pytest.mark.timed
def test_definitions_come_first_in_the_whole_library(capsys: pytest.CaptureFixture[str]) -> None:
    items = items_of(library())
    with capsys.disabled():
        print(f"\n{len(items):,} passages; rank of the definition")
        ours = ranks(LinearRanker(), items, progress=print)
        plain = ranks(BM25Ranker(), items)
        for name, found in ("default", ours), ("BM25", plain):
            first, three = (sum(rank <= most for rank in found) for most in (1, 3))
            reciprocal = mean_reciprocal(found)
            print(
                f"{name:>8}: {first} first, {three} in the first three, mean reciprocal rank "
                f"{reciprocal:.2f}"
            )
