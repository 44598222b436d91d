"""The package that is published: its files, its description, and the types that users' programs see."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling import build

import kaosmem

ROOT = Path(__file__).parent.parent
CITATION = (ROOT / "CITATION.cff").read_text()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the source archive of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build.build_wheel(str(folder))
        build.build_sdist(str(folder))
    return folder


def test_the_description_is_shown_by_a_registry(built):
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_wheel_has_the_package_and_nothing_else(built):
    """Each file of the package, such as tables of weights and `py.typed`, and no test."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {*archive.namelist()}
        (described,) = (name for name in names if name.endswith("METADATA"))
        metadata = Parser().parsestr(archive.read(described).decode())
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kaosmem").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert "kaosmem/py.typed" in names
    assert metadata["Version"] == kaosmem.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert f"version: {kaosmem.__version__}" in CITATION.splitlines()


def test_a_source_archive_can_be_tested(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for needed in ("pyproject.toml", "SECURITY.md", "tests/conftest.py", "docs/sessions.md"):
        assert needed in names


def test_every_extra_is_described():
    """The README has a row for each extra, and no other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "README.md").read_text().partition("| `pip install '.[…]'` | adds |")[2]
    table = table.partition("\n\n")[0]
    rows = re.findall(r"(?m)^\| (`[^|]*`) \|", table)
    named = re.findall(r"`([\w-]+)`", " ".join(rows))
    assert sorted(named) == sorted(project["optional-dependencies"])
