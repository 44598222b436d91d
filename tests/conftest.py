"""How many examples the properties are tried on, tables, and where a run keeps bytecode.

The default examples are the same in every run; `--hypothesis-profile random` draws others each
time, and `soak` many, which takes minutes. `mutants` is the default with more than twice as many and
without the search for smaller examples. A test that needs more or fewer takes a share of the profile's.
"""

import contextlib
import gc
import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from kaosmem.persistence.storage import disk
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.session.opening import SHARED_SESSIONS
from tests.tables import TABLES

TESTS = Path(__file__).parent
CHROMIUM = os.environ.get("KAOSMEM_CHROMIUM") or shutil.which("chromium") or ""
"""The browser for the tests of the page, "" without one."""


def pytest_report_header():
    """Say whether the tests in a browser run."""
    if CHROMIUM:
        return f"page tests: in {CHROMIUM}"
    return (
        "page tests: no Chromium, so tests/view/test_browser.py is left out; install it to run them"
    )


settings.register_profile(
    "random",
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "default", settings.get_profile("random"), derandomize=True, max_examples=20
)
settings.register_profile("soak", settings.get_profile("random"), max_examples=2_000)
settings.register_profile(
    "mutants",
    settings.get_profile("default"),
    max_examples=60,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return one process more than cores for `-n auto`: tests wait for servers, disks and other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config):
    config.stash[TABLES] = []
    if sys.dont_write_bytecode and config.pluginmanager.has_plugin("cacheprovider"):
        _keep_bytecode(config.cache.mkdir("bytecode"))


def _keep_bytecode(folder):
    """Keep bytecode in a folder, in this process, its workers and the processes that tests start.

    Where the environment forbids it beside the sources, each of some hundred processes would
    compile all it imports.
    """
    sys.pycache_prefix = str(folder)
    sys.dont_write_bytecode = False
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _compile_another_part_first():
    """Import the tests in an order of this worker's own, so that the first run compiles each file once.

    Workers start together. In one order, each would compile all files and their packages before
    another has stored the bytecode.
    """
    worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    files = sorted(TESTS.rglob("test_*.py"))
    first = worker * len(files) // workers
    for file in files[first:]:
        name = ".".join(file.relative_to(TESTS.parent).with_suffix("").parts)
        # Whatever fails here fails again when it is collected, and is reported then.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect tests without the garbage collector, which is not to look at modules and tests later either."""
    gc.disable()
    try:
        of_all = session.config.args_source == pytest.Config.ArgsSource.TESTPATHS
        if of_all and "PYTEST_XDIST_WORKER" in os.environ:
            _compile_another_part_first()
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(
            20_000, 20, 20
        )  # by default, half a second in each ten goes to collections that find little


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # one process of several
        session.config.workeroutput["tables"] = session.config.stash[TABLES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[TABLES] += getattr(node, "workeroutput", {}).get("tables", ())


def pytest_terminal_summary(terminalreporter, config):
    for table in config.stash[TABLES]:
        terminalreporter.write_line(f"\n{table}")


@pytest.fixture(scope="module", autouse=True)
def _nobody_waits_for_the_disk():
    """Let syncs return at once: nobody cuts the power of this machine, and a kill leaves its cache.

    The simulated disk of `tests/simulation` tells what a power loss would take.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "_sync_data", lambda descriptor: None)
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_module_keeps_the_sessions_of_another():
    """Let go of what tests opened read-only.

    A process keeps such sessions for the next who opens them. Large ones would take seconds of each
    search of the process, and of garbage collections.
    """
    yield
    SHARED_SESSIONS._sessions.clear()


@pytest.fixture(scope="session")
def s3_of_all():
    """An S3 server for all tests of a process: it takes seconds to start."""
    from tests.servers import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture(params=["local", "objects"])
def place(request, tmp_path):
    """Somewhere to keep sessions: a folder, or a filesystem of objects."""
    return tmp_path / "root" if request.param == "local" else IsolatedMemoryFileSystem()
