"""Leave out the tests of a framework that is not installed. `test_adapters.py` names its extra."""

from importlib.util import find_spec

_NEEDED = {"test_crewai.py": "crewai", "test_openhands.py": "openhands"}
collect_ignore = [file for file, package in _NEEDED.items() if not find_spec(package)]
