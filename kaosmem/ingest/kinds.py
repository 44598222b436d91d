"""Which files can be read, and as what: told from the name alone, so that nothing is opened to find out."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum


class Kind(StrEnum):
    """How a file is cut into passages."""

    TEXT = "text"
    MARKDOWN = "markdown"
    RST = "rst"
    PYTHON = "python"  # code with triple-quoted strings
    BRACES = "braces"  # code whose functions need no keyword: a name, parentheses and a brace
    CODE = "code"  # any other code, markup or configuration: by indentation and blank lines
    JSONL = "jsonl"


_SUFFIXES = {
    Kind.TEXT: "txt text log tex adoc asciidoc org textile",
    Kind.MARKDOWN: "md markdown mdown mkd mdx qmd rmd",
    Kind.RST: "rst rest",
    Kind.PYTHON: "py pyi pyx pxd pyw bzl star",
    Kind.BRACES: "c h cc cpp cxx hh hpp hxx inl cu cuh m mm cs java js jsx mjs cjs ts tsx mts cts kt kts go rs swift "
    "scala dart php groovy gradle d zig sol proto thrift graphql gql glsl hlsl wgsl css scss less awk tf hcl",
    Kind.CODE: "rb sh bash zsh fish ps1 psm1 bat cmd sql lua pl pm r jl hs ml mli fs fsx ex exs erl hrl clj cljs "
    "cljc edn lisp el scm rkt nim cr f f90 f95 pas adb ads vb asm s v sv vhd vhdl tcl m4 ac am cmake mk nix sass "
    "html htm xhtml xml xsd xsl vue svelte jinja j2 erb toml yaml yml ini cfg conf properties json jsonc json5 "
    "diff patch po prisma feature",
    Kind.JSONL: "jsonl ndjson",
}
_BY_SUFFIX = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}

_NAMES = {
    Kind.TEXT: "readme license licence copying copyright notice authors contributors maintainers contributing "
    "changelog changes history news todo install codeowners",
    Kind.CODE: "makefile gnumakefile dockerfile containerfile jenkinsfile vagrantfile rakefile gemfile podfile "
    "brewfile procfile justfile caddyfile",
}
_BY_NAME = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_GENERATED = re.compile(r".*\.min\.(js|mjs|css|html)|package-lock\.json|npm-shrinkwrap\.json")

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
"""Files by which a folder declares what it is."""


def kind_of(name: str) -> Kind | None:
    """Return the kind of a file, by its name without the folder; None for one that can't be read.

    The suffix tells, in any case. Without a known one, a well-known name does: README, LICENSE-MIT,
    Makefile.am, Dockerfile.
    """
    stem, dot, suffix = name.lower().rpartition(".")
    if _GENERATED.fullmatch(name.lower()):
        return None
    if stem and suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    kind = _BY_NAME.get(re.split(r"[.\-_]", name.lower(), maxsplit=1)[0])
    return None if dot and kind is Kind.TEXT else kind  # LICENSE.pdf is no text


def why_unknown(name: str) -> str:
    """Return why `kind_of(name)` is None."""
    if _GENERATED.fullmatch(name.lower()):
        return "generated"
    stem, _, suffix = name.rpartition(".")
    return f"unknown kind {'.' + suffix!r}" if stem else "unknown kind, without a suffix"


def why_not_entered(folder: str, names: Collection[str]) -> str | None:
    """Return why a folder inside the ingested one is skipped as a whole, or None where it is not.

    names: what is in it.
    """
    if folder.endswith(".egg-info"):
        return "build output"
    if "log" in names and ("lock" in names or "snap" in names):
        return "a stored session"
    marked = (reason for marker, reason in _MARKERS.items() if marker in names)
    return _FOLDERS.get(folder) or next(marked, None)
