"""Sessions, other results and the docs' examples give the same bytes on every processor, in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
else:  # pragma: no cover
    from numpy.core._multiarray_umath import __cpu_dispatch__, __cpu_features__

# Without these, NumPy runs the kernels of a processor that has none of them.
FEATURES = " ".join(each for each in __cpu_dispatch__ if __cpu_features__[each])
SETTINGS = [
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": FEATURES,
        "TZ": "America/New_York",
    },
    {
        "OPENBLAS_CORETYPE": "Zen",
        "OPENBLAS_NUM_THREADS": "4",
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8",
    },
    {"OPENBLAS_CORETYPE": "Barcelona", "LC_ALL": "C", "TZ": "Asia/Kathmandu"},
    {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "2", "TZ": "Asia/Tokyo"},
    {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": FEATURES.rpartition(" ")[2]},
    {"OPENBLAS_CORETYPE": "SkylakeX", "LC_ALL": "C"},
]
FEW = 4
"""The default run tries the first of the settings: the most different ones."""
# The kernel of a newer processor than this one ends the process with SIGILL.
KERNEL_PROBE = """
import numpy
matrix = numpy.arange(4096.0).reshape(64, 64) % 97
for numbers in (matrix, matrix.astype("f4")):
    numpy.linalg.svd(numbers @ numbers.T)
    numpy.linalg.eigh(numbers @ numbers.T)
    numbers @ numbers[0]
"""


def environment_of(setting: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process with a setting."""
    names = {name for each in SETTINGS for name in each}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {key: value for key, value in setting.items() if value}
    return environment


def settings_of_this_machine(most: int) -> list[dict[str, str]]:
    """Return those of the first settings whose kernel runs on this processor."""
    settings = []
    for setting in SETTINGS[:most]:
        command = [sys.executable, "-c", KERNEL_PROBE]
        probe = subprocess.run(command, capture_output=True, env=environment_of(setting))
        if probe.returncode == 0:
            settings.append(setting)
    return settings


def digests(setting: dict[str, str], seed: int, sessions: int, *, with_all: bool) -> dict[str, str]:
    """Return the digests of a process with a setting."""
    environment = environment_of(setting)
    environment |= {
        "PYTHONHASHSEED": str(seed),
        "PYTHONUTF8": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "tests.anywhere", str(sessions), str(int(with_all))]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert not run.returncode, run.stderr
    found: dict[str, str] = json.loads(run.stdout)
    return found


def all_differences(sessions: int, *, most: int, all_in: int) -> list[tuple[str, str]]:
    """Return the names of settings and digests that differ from the first setting's.

    Args:
        most: Number of settings that are tried.
        all_in: Number of settings that run the examples and the other results.
    """
    settings = settings_of_this_machine(most)
    assert len(settings) >= most - 2
    found = []
    for seed, setting in enumerate(settings):
        found.append(digests(setting, seed, sessions, with_all=seed < all_in))
    assert len(found[0]) > sessions + 30
    assert len(set(found[0].values())) > sessions
    differences = []
    for setting, other in zip(settings[1:], found[1:], strict=True):
        for name, digest in other.items():
            if digest != found[0][name]:
                differences.append((setting["OPENBLAS_CORETYPE"], name))
    return differences


def test_every_process_gives_the_same_bytes() -> None:
    """Kernels, threads, locales, time zones and hash seeds change nothing."""
    assert all_differences(16, most=FEW, all_in=2) == []


@pytest.mark.soak
def test_every_process_gives_the_same_bytes_in_many_sessions() -> None:
    """As above, in some hundred sessions, and with everything under every kernel."""
    assert all_differences(600, most=len(SETTINGS), all_in=len(SETTINGS)) == []
