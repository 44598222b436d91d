"""Leave out the tests of a framework that is not installed. `test_adapters.py` names its extra."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("crewai") else ["test_crewai.py"]
