"""Leave out the examples of frameworks that are not installed.

The tests of their adapters, in `tests/integrations`, say so in a skip that names the extra.
"""

from importlib.util import find_spec

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


def _is_installed(package: str) -> bool:
    parent = package.partition(".")[0]
    return find_spec(parent) is not None and find_spec(package) is not None


collect_ignore = [file for file, package in _NEEDED.items() if not _is_installed(package)]
