"""The kinds of files that can be read.

The content of a file tells its kind, then its name. To add a kind, add a row to `KINDS`, and a
module with its reader unless it is cut by one of the syntaxes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from kaosmem.ingest.files import UnreadableError, decoded_text, has_utf_16_mark
from kaosmem.ingest.pieces import Lost, Part, Reader, Syntax, text_part


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: As in "a damaged PDF".
        reads: A syntax, for a text that is cut as a whole, or the `module:function` of a `Reader`.
        suffixes: The suffixes of such files, in lower case.
        names: Names of such files without a suffix.
        programs: Programs after `#!`.
        begins: Pattern of the first lines of a text. It counts if the suffix says nothing.
        magic: Pattern of the first bytes. It counts before all else.
    """

    name: str
    reads: Syntax | str
    suffixes: str = ""
    names: str = ""
    programs: str = ""
    begins: str = ""
    magic: bytes = b""

    @cached_property
    def reader(self) -> Reader:
        """Return the reader, imported when it is first needed."""
        if isinstance(self.reads, Syntax):
            syntax = self.reads
            return lambda data: [text_part(decoded_text(data), syntax)]
        module, _, function = self.reads.partition(":")
        reader: Reader = getattr(import_module(f"kaosmem.ingest.{module}"), function)
        return reader

    def parts(self, data: bytes) -> Iterable[Part | Lost]:
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


KINDS = (
    Kind("PDF", "pdf:read_pdf", suffixes="pdf", magic=rb"\s*%PDF-\d"),
    Kind(
        "document",
        "office:read_zipped",
        suffixes="docx docm pptx pptm xlsx xlsm epub",
        magic=rb"PK\x03\x04",
    ),
    Kind(
        "HTML",
        "web:read_html",
        suffixes="html htm xhtml",
        begins=r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html)\b",
    ),
    Kind(
        "text",
        Syntax.TEXT,
        suffixes="txt text rst rest log tex adoc asciidoc org textile man mdoc roff pod",
        names="readme license licence copying copyright notice authors contributors maintainers "
        "contributing "
        "changelog changes history news todo install codeowners",
    ),
    Kind("Markdown", Syntax.MARKDOWN, suffixes="md markdown mdown mkd mdx qmd rmd"),
    Kind(
        "code",
        Syntax.CODE,
        suffixes="py pyi pyx pxd pyw bzl star "
        "c h cc cpp cxx hh hpp hxx inl cu cuh m mm cs java js jsx mjs cjs ts tsx mts cts "
        "kt kts go rs swift "
        "scala dart php groovy gradle d zig sol proto thrift graphql gql glsl hlsl wgsl css scss "
        "less awk tf hcl rb sh bash zsh fish ps1 psm1 bat cmd sql lua pl pm t r jl hs ml mli fs fsx ex "
        "exs erl hrl clj cljs "
        "cljc edn lisp el scm rkt nim cr f f90 f95 pas adb ads vb asm s v sv vhd vhdl tcl m4 ac am "
        "cmake mk nix sass "
        "xml xsd xsl vue svelte jinja j2 erb toml yaml yml ini cfg conf properties json jsonc "
        "json5 "
        "diff patch po prisma feature service socket timer desktop",
        names="makefile gnumakefile dockerfile containerfile jenkinsfile vagrantfile rakefile "
        "gemfile podfile "
        "brewfile procfile justfile caddyfile",
        programs="python pypy node deno bun php awk gawk "
        "sh bash zsh fish dash ksh perl ruby lua tclsh wish rscript make",
        begins=r"<\?xml|diff -",
    ),
    Kind("JSONL", "records:read_jsonl", suffixes="jsonl ndjson"),
    Kind("table", "office:read_csv", suffixes="csv tsv tab"),
    Kind("notebook", "records:read_notebook", suffixes="ipynb"),
    Kind("e-mail", "mail:read_message", suffixes="eml"),
    Kind("mailbox", "mail:read_mailbox", suffixes="mbox", begins=r"From \S+ .*\d{4}\n[\w-]+: "),
)

_TEXT = next(kind for kind in KINDS if kind.reads is Syntax.TEXT)
_ZIPPED = next(kind for kind in KINDS if "docx" in kind.suffixes)
_BY_SUFFIX: dict[str, Kind] = {}
_BY_NAME: dict[str, Kind] = {}
_BY_PROGRAM: dict[str, Kind] = {}
for _kind in KINDS:
    _BY_SUFFIX |= dict.fromkeys(_kind.suffixes.split(), _kind)
    _BY_NAME |= dict.fromkeys(_kind.names.split(), _kind)
    _BY_PROGRAM |= dict.fromkeys(_kind.programs.split(), _kind)
_BY_MAGIC = [(re.compile(kind.magic), kind) for kind in KINDS if kind.magic]
_BY_BEGIN = [(re.compile(kind.begins, re.IGNORECASE), kind) for kind in KINDS if kind.begins]

_PROGRAM = re.compile(r"#![^\n]*?([a-z]+)[\d.]*(?:[ \t]+-[^\n]*)?(?:\n|\Z)")
_HEAD_CHARS = 4_096

_OTHER_MAGIC = (
    (rb"7z\xbc\xaf|Rar!|(?s:.{257})ustar", "an archive", "unpack it"),
    (rb"\x1f\x8b|BZh[1-9]1AY&SY|\xfd7zXZ\0", "compressed", "expand it"),
    (
        rb"(?s)\xd0\xcf\x11\xe0.*E\0n\0c\0r\0y\0p\0t\0e\0d\0P",
        "password-protected",
        "save it without a password",
    ),
    (rb"\xd0\xcf\x11\xe0", "an old Office document", "save it as .docx, .xlsx or .pptx"),
    (rb"\x7fELF", "compiled code", ""),
    (rb"%!PS", "PostScript", "save it as PDF"),
)
_OTHERS = [
    (re.compile(magic), UnreadableError(reason, detail)) for magic, reason, detail in _OTHER_MAGIC
]

_MEDIA = {
    "an image": "png jpg jpeg gif bmp tif tiff webp avif heic ico icns svg psd xcf",
    "audio": "mp3 wav flac ogg oga opus m4a aac wma aiff mid",
    "a video": "mp4 m4v mov avi mkv webm wmv mpg mpeg",
    "a font": "ttf otf woff woff2 eot",
    "compiled code": "pyc pyo so dll exe dylib o a class wasm",
}
_MEDIA_BY_SUFFIX: dict[str, str] = {}
for _reason, _suffixes in _MEDIA.items():
    _MEDIA_BY_SUFFIX |= dict.fromkeys(_suffixes.split(), _reason)
_GENERATED = re.compile(
    r".*\.min\.(js|mjs|css|html)|.*\.(js|css)\.map|package-lock\.json|npm-shrinkwrap\.json"
)

_FOLDERS = {
    "__pycache__": "compiled code",
    "node_modules": "dependencies",
    "bower_components": "dependencies",
    "site-packages": "dependencies",
    "dist-packages": "dependencies",
    "build": "build output",
    "dist": "build output",
}
_MARKERS = {"pyvenv.cfg": "a virtual environment", "CACHEDIR.TAG": "a cache"}
"""Files by which a folder declares its kind."""


def kind_of(name: str, data: bytes) -> Kind:
    """Return the kind of a file.

    Args:
        name: The name without its folder.
        data: The content, or its beginning.

    Raises:
        UnreadableError: If the kind can't be read.
    """
    for magic, kind in _BY_MAGIC:
        if magic.match(data):
            return kind
    for magic, unreadable in _OTHERS:
        if magic.match(data):
            raise unreadable
    *stems, suffix = name.lower().split(".")
    known = _BY_SUFFIX.get(suffix) if any(stems) else None
    if known is not None and (known is not _TEXT or not _inner(stems)):
        return known
    return _by_content(data) or _by_stem(stems or [suffix]) or _TEXT


def _by_content(data: bytes) -> Kind | None:
    head = data[:_HEAD_CHARS].decode("utf-8-sig", "replace").replace("\r\n", "\n")
    program = _PROGRAM.match(head)
    if program:
        return _BY_PROGRAM.get(program[1])
    return next((kind for begin, kind in _BY_BEGIN if begin.match(head)), None)


def _inner(stems: list[str]) -> Kind | None:
    """Return the kind of `index.rst.txt` but for its last suffix, if that is a text."""
    kind = _BY_SUFFIX.get(stems[-1]) if len(stems) > 1 else None
    return None if kind is None or kind.magic else kind


def _by_stem(stems: list[str]) -> Kind | None:
    """Return the kind of a name without its last suffix, such as `LICENSE-MIT` or `settings.py`."""
    return _inner(stems) or _BY_NAME.get(re.split(r"[\-_]", stems[0], maxsplit=1)[0])


def check_beginning(name: str, head: bytes) -> None:
    """Raise UnreadableError if the first bytes of a file show that it can't be read."""
    kind = kind_of(name, head)
    if not kind.magic and b"\0" in head and not has_utf_16_mark(head):
        raise UnreadableError("binary")
    if kind is _ZIPPED and not has_known_suffix(name):
        raise UnreadableError("an archive", "unpack it")


def has_known_suffix(name: str) -> bool:
    """Return whether the suffix of a name is one of a kind that can be read."""
    return name.lower().rpartition(".")[2] in _BY_SUFFIX


def why_not_opened(name: str) -> str | None:
    """Return why a file is skipped because of its name, or None where its content decides."""
    if _GENERATED.fullmatch(name.lower()):
        return "generated"
    stem, _, suffix = name.lower().rpartition(".")
    return _MEDIA_BY_SUFFIX.get(suffix) if stem else None


def why_not_entered(folder: str, names: Collection[str]) -> str | None:
    """Return why a folder inside the ingested one is skipped as a whole, or None where it is not.

    Args:
        names: Of its files.
    """
    if folder.endswith(".egg-info"):
        return "build output"
    if "log" in names and ("lock" in names or "snap" in names):
        return "a stored session"
    marked = (reason for marker, reason in _MARKERS.items() if marker in names)
    return _FOLDERS.get(folder) or next(marked, None)
