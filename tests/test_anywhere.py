"""Sessions, other results and the docs' examples give the same bytes on every processor, in every process."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.anywhere import AS_ON_ITS_PAGE, digest, digests_here

if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
else:  # pragma: no cover
    from numpy.core._multiarray_umath import __cpu_dispatch__, __cpu_features__

# Without these, NumPy runs the kernels of a processor that has none of them.
FEATURES = " ".join(each for each in __cpu_dispatch__ if __cpu_features__[each])
SETTINGS = [
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
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
]


def environment_of(setting):
    """Return the environment of a process with a setting."""
    names = {name for each in SETTINGS for name in each}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {key: value for key, value in setting.items() if value}
    return environment


def digests(setting, seed, sessions, *, parts):
    """Return the digests of a process with a setting, None where this processor lacks its kernel."""
    environment = environment_of(setting)
    environment |= {
        "PYTHONHASHSEED": str(seed),
        "PYTHONUTF8": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "tests.anywhere", str(sessions), str(parts)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode == -signal.SIGILL:  # of a kernel for a newer processor
        return None
    assert not run.returncode, run.stderr
    return json.loads(run.stdout)


def all_differences(sessions, parts):
    """Return the names of settings and digests that differ from those of this process.

    The output of an example, which this process does not run here, is compared with its page.

    Args:
        parts: What each of the first settings runs, as `tests.anywhere` says.
    """
    here = digests_here(sessions, parts=2)
    found = {}
    for seed, setting in enumerate(SETTINGS[: len(parts)]):
        in_setting = digests(setting, seed, sessions, parts=parts[seed])
        if in_setting is not None:
            found[setting["OPENBLAS_CORETYPE"]] = in_setting
    assert len(found) >= len(parts) - 2
    names = {*here}.union(*found.values())
    assert len(names) > sessions + 70
    expected = dict.fromkeys(names, digest(AS_ON_ITS_PAGE)) | here
    assert len(set(expected.values())) > sessions
    differences = []
    for kernel, in_setting in found.items():
        differing = [name for name in in_setting if in_setting[name] != expected[name]]
        differences += [(kernel, name) for name in differing]
    return differences


def test_every_process_gives_the_same_bytes():
    """Kernels, threads, locales, time zones and hash seeds change nothing.

    The most different settings are the first ones.
    """
    assert all_differences(6, parts=[3, 1, 1]) == []


@pytest.mark.soak
def test_every_process_gives_the_same_bytes_in_many_sessions():
    """As above, in some hundred sessions, and with everything under every kernel."""
    assert all_differences(600, parts=[3] * len(SETTINGS)) == []
