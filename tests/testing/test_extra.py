"""The helpers for tests work without Hypothesis, and contracts name the extra that they need."""

from __future__ import annotations

import subprocess
import sys


def test_without_hypothesis_the_remedy_is_named() -> None:
    """The checkers of messages need no extra; a contract says which one it needs."""
    code = (
        "import sys; sys.modules['hypothesis'] = None; from kaosmem import testing; "
        "testing.check_openai_messages; "
        "testing.BlobContract"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        "MissingExtraError: BlobContract needs the extra 'test': pip install 'kaosmem[test]'"
        in done.stderr
    )


def test_importing_kaosmem_testing_does_not_load_hypothesis() -> None:
    code = "import sys, kaosmem.testing; assert 'hypothesis' not in sys.modules; kaosmem.testing.BlobContract"
    subprocess.run([sys.executable, "-c", code], check=True)
