"""What `import kaosmem` costs, beside importing asyncio alone: CPU time of fresh processes."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import pytest

ROUNDS = 5


def import_s(module: str) -> float:
    """Return the median CPU seconds of importing a module in a fresh process."""
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    run = [sys.executable, "-c", code]
    return median(
        float(subprocess.run(run, capture_output=True, check=True).stdout) for _ in range(ROUNDS)
    )


@pytest.mark.timed
def test_cost_of_importing(capsys: pytest.CaptureFixture[str]) -> None:
    """Print both and their ratio; under 0.3 s is the goal."""
    ours = import_s("kaosmem")
    asyncio_alone = import_s("asyncio")
    with capsys.disabled():
        print(
            f"\nimport kaosmem {ours:.3f} s, import asyncio {asyncio_alone:.3f} s, ratio "
            f"{ours / asyncio_alone:.1f}"
        )
    assert ours > asyncio_alone
