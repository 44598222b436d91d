"""The site has every page and every public name."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import kaosmem

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def files_of(entries: list[Any]) -> list[str]:
    """Return the files that a navigation names, in order."""
    found: list[str] = []
    for entry in entries:
        found += [entry] if isinstance(entry, str) else files_of(next(iter(entry.values())))
    return found


def test_every_page_is_in_the_navigation() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(files_of(navigation)) == sorted(pages)


def test_the_reference_has_every_public_name() -> None:
    """Each name of an `__all__` stands once: with `kaosmem`, else with its package.

    The page of the integrations has their classes, too, which are imported from modules.
    """
    documented = []
    for page in (DOCS / "reference").glob("*.md"):
        documented += re.findall(r"(?m)^::: (\S+)$", page.read_text())
    expected = []
    for path in (ROOT / "kaosmem").rglob("__init__.py"):
        package = ".".join(path.relative_to(ROOT).parent.parts)
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "__all__":
                continue
            module = import_module(package)
            for name in ast.literal_eval(node.value):
                is_top = getattr(kaosmem, name, None) is getattr(module, name)
                if package == "kaosmem" or not (is_top and name in kaosmem.__all__):
                    expected.append(f"{package}.{name}")
    others = {*documented} - {*expected}
    assert sorted(documented) == sorted([*expected, *others])
    for path in others:
        module, _, name = path.rpartition(".")
        assert module.startswith("kaosmem.integrations.")
        # Not imported: a framework takes seconds.
        source = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text()
        assert re.search(rf"(?m)^(class )?{name}\b", source), path


def test_pages_of_the_site_link_to_each_other_alone() -> None:
    """A file beside `docs/` is named in code, such as `examples/README.md`: the site has no page of it."""
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)", path.read_text()):
            assert (path.parent / target).resolve().is_relative_to(DOCS), (path.name, target)
