"""The site has every page and every public name."""

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
        assert re.search(rf"(?m)^(class |async def )?{name}\b", texts[module]), path
    for module, text in texts.items():
        for name in re.findall(r"(?m)^class (Kaosmem\w+)", text):
            assert f"::: kaosmem.integrations.{module}.{name}\n" in page


def test_pages_of_the_site_link_to_each_other_alone():
    """A file beside `docs/` is named in code, such as `examples/README.md`: the site has no page of it."""
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)", path.read_text()):
            assert (path.parent / target).resolve().is_relative_to(DOCS), (path.name, target)
