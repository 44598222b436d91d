"""The site has every page and every public name."""

import ast
import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def files_of(entries):
    """Return the files that a navigation names, in order."""
    found = []
    for entry in entries:
        found += [entry] if isinstance(entry, str) else files_of(next(iter(entry.values())))
    return found


def test_every_page_is_in_the_navigation():
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(files_of(navigation)) == sorted(pages)


def test_the_reference_has_every_public_name():
    """Each name of an `__all__` stands once: with `kaosmem`, else with its package."""
    written = {
        path.name: path.read_text()
        for path in (DOCS / "reference").glob("*.md")
        if path.name != "integrations.md"
    }
    pages = runpy.run_path(str(DOCS / "reference" / "write_pages.py"))["pages"]()
    assert written == pages, "run: python docs/reference/write_pages.py"


def test_the_reference_has_the_integrations():
    """Each class of an adapter that users import, and no name that is gone."""
    page = (DOCS / "reference" / "integrations.md").read_text()
    folder = ROOT / "kaosmem" / "integrations"
    texts = {}
    for source in folder.rglob("*.py"):
        module = source.relative_to(folder).parts[0].removesuffix(".py")
        texts[module] = texts.get(module, "") + source.read_text()
    for path in re.findall(r"(?m)^::: (\S+)$", page):
        module, _, name = path.removeprefix("kaosmem.integrations.").rpartition(".")
        assert re.search(rf"(?m)^(class |(async )?def )?{name}\b", texts[module]), path
    for module, text in texts.items():
        for name in re.findall(r"(?m)^class (Kaosmem\w+)", text):
            assert f"::: kaosmem.integrations.{module}.{name}\n" in page


def test_pages_of_the_site_link_to_each_other_alone():
    """A file beside `docs/` is named in code, such as `examples/README.md`: the site has no page of it."""
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)", path.read_text()):
            assert (path.parent / target).resolve().is_relative_to(DOCS), (path.name, target)


def _calls(program):
    """Return the keywords of each call in a program, by the name of the function."""
    found = {}
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile(program, "example", "exec", flags)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found.setdefault(name, set()).update(each.arg for each in node.keywords)
    return found


def test_the_lines_for_each_framework_are_those_of_its_example():
    """A page shows the import and the calls, with the arguments of the program that runs as a test."""
    snippets = re.findall(r"(?s)```py\n(.*?)```", (DOCS / "frameworks.md").read_text())
    shown = set()
    for snippet in snippets:
        found = re.search(r"from kaosmem\.integrations\.(\w+) import (\w+)\n", snippet)
        if found is None:
            continue
        example = (ROOT / "examples" / f"test_with_{found[1]}.py").read_text()
        assert found[0] in example
        known = _calls(example)
        for name, keywords in _calls(snippet).items():
            assert keywords <= known.get(name, set()), (found[1], name)
        shown.add(found[1])
    examples = {path.stem.removeprefix("test_with_") for path in ROOT.glob("examples/test_with_*")}
    assert shown == examples
