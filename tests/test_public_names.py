"""The public names: few at the top, the rest in the package of their kind."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import kaosmem
from kaosmem.compaction import Summarizer

PACKAGES = [
    "compaction",
    "context",
    "conversation",
    "corpora",
    "errors",
    "formats",
    "retrieval",
    "sections",
    "session",
    "sources",
    "stores",
]


def test_the_top_level_holds_few_names():
    """`kaosmem` itself exports at most 47 names, and each is there."""
    assert len(kaosmem.__all__) <= 47
    assert all(hasattr(kaosmem, name) for name in kaosmem.__all__)


def test_packages_export_few_names():
    """All packages together export at most 195 names; internal ones come from their modules."""
    number = 0
    for path in Path(kaosmem.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                number += len(ast.literal_eval(node.value))
    # Seven of them are for corpora: protocol, contract, three engines, source, ingestion.
    # Eleven are for formation: four formers and their changes, a plan, a shelf of facts, a profile.
    # Two are for retention: a policy and its report.
    assert number <= 195


def test_a_memory_has_few_members_and_parameters():
    """`SessionMemory` has at most 33 members, and its calls at most twelve parameters, but for `add`."""
    members = [name for name in vars(kaosmem.SessionMemory) if not name.startswith("_")]
    # 28, `why` and `what_if` of the trace, `form` and `proposals` of formation, `collecting`
    assert len(members) <= 33
    for name in members:
        member = getattr(kaosmem.SessionMemory, name)
        if callable(member) and name != "add":
            # Ten, and `system` and `tools` of a call of `assemble_context`.
            assert len(inspect.signature(member).parameters) <= 12, name


def test_help_begins_with_a_sentence():
    """No default value takes a page of `help()`: neither sections nor patterns of a language."""
    for function in (kaosmem.SessionMemory.open, kaosmem.SessionMemory.test_mode, Summarizer):
        assert len(str(inspect.signature(function))) < 1_200


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_means_the_same_everywhere(package):
    """A name that two packages export is one and the same thing."""
    module = import_module(f"kaosmem.{package}")
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is getattr(kaosmem, name, getattr(module, name))


def test_errors_are_few_and_each_is_a_builtin_too():
    """There are at most 19 errors beside their base, and each is caught as kaosmem's and as the builtin of its kind."""
    from kaosmem import errors

    builtins = (
        ValueError,
        LookupError,
        OSError,
        OverflowError,
        RuntimeError,
        TypeError,
        ImportError,
    )
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and each.__module__ == errors.__name__
    ]
    assert len(kinds) <= 20
    for kind in kinds:
        assert issubclass(kind, kaosmem.KaosmemError)
        assert kind is kaosmem.KaosmemError or issubclass(kind, builtins)
