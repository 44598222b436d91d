"""Processes with other hash seeds, and other numbers of threads, give the same results byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.seeded import RESULTS


def printed(seed: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed, "PYTHONUTF8": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    run = subprocess.run(
        [sys.executable, "-m", "tests.seeded"], capture_output=True, text=True, env=environment
    )
    assert not run.returncode, run.stderr
    results: dict[str, str] = json.loads(run.stdout)
    return results


def test_any_process_and_hash_seed_gives_the_same() -> None:
    """Terms, rankings, contexts with their decisions, and summaries; without a network, importing no model."""
    one = printed("1")
    two = printed("2")
    assert [name for name in one if one[name] != two[name]] == []
    assert one.keys() == {each.__name__ for each in RESULTS}
    assert all(len(each) > 100 for each in one.values())
    assert "entity:e6" in one["rankings_of_a_graph"]
