"""Leave out the examples of frameworks that are not installed, and import the other frameworks late.

The tests of their adapters, in `tests/integrations`, say so in a skip that names the extra.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

_NEEDED = {
    "test_with_crewai.py": "crewai",
    "test_with_google_adk.py": "google.adk",
    "test_with_haystack.py": "haystack",
    "test_with_litellm.py": "litellm",
    "test_with_llama_index.py": "llama_index",
    "test_with_openhands.py": "openhands.sdk",
    "test_with_smolagents.py": "smolagents",
    "test_with_strands.py": "strands",
}
_SLOW_TO_IMPORT = ("agent_framework", "langchain", "openai_agents", "pydantic_ai")


def _is_installed(package: str) -> bool:
    parent = package.partition(".")[0]
    return find_spec(parent) is not None and find_spec(package) is not None


collect_ignore = [file for file, package in _NEEDED.items() if not _is_installed(package)]


class _ImportedLate(pytest.Module):
    """An example of one test, which imports a framework.

    That takes seconds. Of the processes of a run, all collect the test, and one imports the framework.
    """

    def collect(self) -> Iterator[pytest.Function]:
        (name,) = re.findall(r"(?m)^(?:async )?def (test_\w+)\(tmp_path", self.path.read_text())
        yield pytest.Function.from_parent(self, name=name, callobj=self._test(name))

    def _test(self, name: str) -> Callable[[Path], None]:
        def test(tmp_path: Path) -> None:
            result = getattr(self.obj, name)(tmp_path)
            if inspect.isawaitable(result):
                asyncio.run(result)

        return test


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Return the collector of an example, None for the usual one."""
    if module_path.stem.removeprefix("test_with_") in _SLOW_TO_IMPORT:
        return _ImportedLate.from_parent(parent, path=module_path)
    return None
