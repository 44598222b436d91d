"""The kinds of files that can be read.

The content of a file tells its kind, then its name. To add a kind, add a row to
`kinds.toml`, and a module with its reader unless it is cut by one of the syntaxes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

from kaosmem.ingest.files import UnreadableError, decoded_text
from kaosmem.ingest.pieces import DocumentPart, Reader, Syntax, UnreadablePlace, cut_into_pieces


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Attributes:
        name: As in "a damaged PDF".
        reads: A `Syntax`, for a text that is cut as a whole, or the `module:function` of a
            `Reader`.
        suffixes: The suffixes of such files, in lower case.
        names: Names of such files without a suffix.
        programs: Programs after `#!`.
        begins: Pattern of the first lines of a text. It counts if the suffix says nothing.
        magic: Pattern of the first bytes. It counts before all else.
    """

    name: str
    reads: str
    suffixes: str = ""
    names: str = ""
    programs: str = ""
    begins: str = ""
    magic: str = ""

    @cached_property
    def reader(self) -> Reader:
        """Return the reader, imported when it is first needed."""
        module, _, function = self.reads.partition(":")
        if not function:
            syntax = Syntax(module)
            return lambda data: [
                DocumentPart(cut_into_pieces(decoded_text(data), syntax), numbered=True)
            ]
        reader: Reader = getattr(import_module(f"kaosmem.ingest.{module}"), function)
        return reader

    def parts(self, data: bytes) -> Iterable[DocumentPart | UnreadablePlace]:
        """Return the parts of a file. Raises UnreadableError."""
        try:
            return list(self.reader(data))
        except UnreadableError:
            raise
        except ModuleNotFoundError:
            raise UnreadableError("needs the extra 'docs'", "pip install 'kaosmem[docs]'") from None
        except (Exception, RecursionError) as error:  # whatever a library makes of a damaged file
            raise UnreadableError(
                "damaged", f"{type(error).__name__} as {self.name}; save it anew"
            ) from error


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KINDS = tuple(FileKind(**row) for row in _TABLES["kinds"])

_TEXT = next(kind for kind in KINDS if kind.reads == Syntax.TEXT)
_BY_SUFFIX: dict[str, FileKind] = {}
_BY_NAME: dict[str, FileKind] = {}
_BY_PROGRAM: dict[str, FileKind] = {}
for _kind in KINDS:
    _BY_SUFFIX |= dict.fromkeys(_kind.suffixes.split(), _kind)
    _BY_NAME |= dict.fromkeys(_kind.names.split(), _kind)
    _BY_PROGRAM |= dict.fromkeys(_kind.programs.split(), _kind)
_BY_MAGIC = [(re.compile(kind.magic.encode("latin-1")), kind) for kind in KINDS if kind.magic]
_BY_BEGIN = [(re.compile(kind.begins, re.IGNORECASE), kind) for kind in KINDS if kind.begins]

_PROGRAM = re.compile(r"#![^\n]*?([a-z]+)[\d.]*(?:[ \t]+-[^\n]*)?(?:\n|\Z)")
_HEAD_CHARS = 4_096
_WORD_END = re.compile(r"[.\-_]")

_OTHERS = [
    (re.compile(row["magic"].encode("latin-1")), UnreadableError(row["reason"], row["detail"]))
    for row in _TABLES["unreadable"]
]
_MEDIA: dict[str, str] = {}
for _reason, _suffixes in _TABLES["media"].items():
    _MEDIA |= dict.fromkeys(_suffixes.split(), _reason)
_GENERATED = re.compile(
    r".*\.min\.(js|mjs|css|html)|.*\.(js|css)\.map|package-lock\.json|npm-shrinkwrap\.json"
    r"|search_?index\.(js|json)"
)


def kind_of(name: str, data: bytes) -> FileKind:
    """Return the kind of a file.

    Args:
        name: The name without its folder.
        data: The content.

    Raises:
        UnreadableError: If the kind can't be read.
    """
    for magic, kind in _BY_MAGIC:
        if magic.match(data):
            return kind
    for magic, unreadable in _OTHERS:
        if magic.match(data):
            raise unreadable
    known = _BY_SUFFIX.get(_suffix_of(name))
    first_word = _WORD_END.split(name.lower(), maxsplit=1)[0]
    return known or _by_content(data) or _BY_NAME.get(first_word, _TEXT)


def _suffix_of(name: str) -> str:
    """Return the suffix of a name in lower case, "" without one."""
    stem, _, suffix = name.lower().rpartition(".")
    if stem:
        return suffix
    return ""


def _by_content(data: bytes) -> FileKind | None:
    """Return the kind that the first lines of a text tell, None if they tell none."""
    head = data[:_HEAD_CHARS].decode("utf-8-sig", "replace").replace("\r\n", "\n")
    program = _PROGRAM.match(head)
    if program:
        return _BY_PROGRAM.get(program[1])
    for begin, kind in _BY_BEGIN:
        if begin.match(head):
            return kind
    return None


def why_not_opened(name: str) -> str | None:
    """Return why a file is skipped because of its name, or None where its content decides."""
    if _GENERATED.fullmatch(name.lower()):
        return "generated"
    return _MEDIA.get(_suffix_of(name))


def why_not_entered(folder: str, names: Collection[str]) -> str | None:
    """Return why a folder inside the ingested one is skipped as a whole, or None where it is not.

    Args:
        names: Of its files.
    """
    if folder.endswith(".egg-info"):
        return "build output"
    if "log" in names and ("lock" in names or "snap" in names):
        return "a stored session"
    reason: str | None = _TABLES["folders"].get(folder)
    if reason is not None:
        return reason
    for marker, reason in _TABLES["markers"].items():
        if marker in names:
            return reason
    return None
