"""Writes the pages of the reference: one for each package, with its public names.

Run it after `__all__` of a package has changed: `python docs/reference/write_pages.py`. The page of the
integrations is written by hand, since a framework may not be installed.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import kaosmem

PAGES = Path(__file__).parent
ROOT = PAGES.parent.parent


def pages() -> dict[str, str]:
    """Return the text of each page by its file's name. A name stands with `kaosmem` or its package."""
    found = {}
    for path in sorted((ROOT / "kaosmem").rglob("__init__.py")):
        package = ".".join(path.relative_to(ROOT).parent.parts)
        if package.startswith("kaosmem.integrations"):
            continue
        names = [name for name in public_names(path) if _belongs(name, package)]
        if names:
            file = package.removeprefix("kaosmem.").replace(".", "-") + ".md"
            summary = (import_module(package).__doc__ or "").splitlines()[0]
            blocks = [f"::: {package}.{name}" for name in sorted(names)]
            found[file] = "\n\n".join([f"# {package}", summary, *blocks]) + "\n"
    return found


def public_names(path: Path) -> list[str]:
    """Return `__all__` of a module."""
    names: list[str] = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
    return names


def _belongs(name: str, package: str) -> bool:
    """Return whether a name stands on the page of a package, not with `kaosmem`."""
    if package == "kaosmem" or name not in kaosmem.__all__:
        return True
    return getattr(kaosmem, name) is not getattr(import_module(package), name)


if __name__ == "__main__":
    for file, text in pages().items():
        (PAGES / file).write_text(text)
