"""Manual pages: roff and Perl's POD as text with headings, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kaosmem.ingest.files import UnreadableError, decoded_text
from kaosmem.ingest.pieces import Part, Syntax, text_part

_HEADINGS = {"SH": "# ", "Sh": "# ", "SS": "## ", "Ss": "## "}
_PREFORMATTED = {"nf": True, "EX": True, "Bd": True, "fi": False, "EE": False, "Ed": False}
# Requests that show nothing: layout, fonts, and the definitions of others.
_SILENT_NAMES = (
    "TH Dd Dt Os PP P LP Pp RS RE PD HP TP TQ sp br ad na nh hy ne in ti ft ps ll ta ce UC AT DT Bl El Bk Ek so "
    "mso if ie el nr tr rr rm ds de als am ig do ev hw hla hcode eo ec cc pl po vs bp rn lf TS TE EQ EN"
)
_SILENT = frozenset(_SILENT_NAMES.split())
_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z0-9]+|\\\")?[ \t]*(.*)")
_BEFORE_MARK = re.compile(r" (?=[.,;:)\]](?: |\Z))")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_ESCAPE = re.compile(
    r"\\(?:f(?:\[[^\]]{0,80}\]|\(..|.)|s[-+]?\d{1,2}|s\[[^\]]{0,80}\]|[*n](?:\[([^\]]{0,80})\]|\((..)|(.))|\[([^\]]{0,80})\]"
    r"|\((..)|[mM]\[[^\]]{0,80}\]|[hvwbklLoXZ]'[^']{0,200}'|\".*|(.)|\Z)"
)
_GLYPHS = {
    "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "em": "—", "en": "–", "bu": "•", "hy": "-",
    "mi": "-", "rs": "\\", "ti": "~", "ha": "^", "ga": "`", "co": "©", "rg": "®", "tm": "™", "mu": "×", "la": "⟨",
    "ra": "⟩", "<-": "←", "->": "→", "<=": "≤", ">=": "≥", "pl": "+", "sl": "/", "sq": "□", "de": "°", "Lq": "“",
    "Rq": "”", "Tm": "™", "R": "®",
}  # fmt: skip
_CHARS = {"-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "t": "\t", "'": "'", "`": "`", ".": "."}

_COMMAND = re.compile(r"=([a-z]+)([1-6]?)[ \t]*(.*)")
_CODE = re.compile(r"[A-Z](?:<<<[ \t](.*?)[ \t]>>>|<<[ \t](.*?)[ \t]>>|<([^<>]*)>)")
_MAX_POD_CHARS, _MAX_POD_DEPTH = 10_000, 8
_ENTITIES = {"lt": "<", "gt": ">", "verbar": "|", "sol": "/"}
# Where a `<` of a code must not be taken for one: while its brackets are still there.
_MASKED = str.maketrans({"<": "\ue000", ">": "\ue001"})
_UNMASKED = str.maketrans({"\ue000": "<", "\ue001": ">"})


def read_roff(data: bytes) -> Iterator[Part]:
    """Yield the text of a manual page in roff, with the macros `man` or `mdoc`."""
    text = decoded_text(data)
    lines = list(_roff_lines(text.split("\n")))
    if not any(line.strip() for line in lines):
        elsewhere = re.search(r"^\.so +(\S+)", text, re.MULTILINE)
        raise UnreadableError("refers to another file", elsewhere[1]) if elsewhere else UnreadableError("no text")
    yield text_part("\n".join(lines), Syntax.MARKDOWN)


def _roff_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the shown text of each line of roff, so that line numbers stay."""
    is_preformatted = defining = False
    about = ""
    for line in lines:
        request = _REQUEST.match(line)
        if defining or request is None:
            defining = defining and line.rstrip() != ".."
            yield "" if defining or line.startswith("..") else _body(_plain(line), is_preformatted)
            continue
        name, rest = request[1] or "", request[2]
        is_preformatted = _PREFORMATTED.get(name, is_preformatted)
        defining = name in ("de", "ig")
        if name in _HEADINGS:
            yield _HEADINGS[name] + " ".join(_arguments(rest))
        elif name == "IP":
            yield _body("".join(_arguments(rest)[:1]), is_preformatted)
        elif not name.isalnum() or name in _SILENT or name in _PREFORMATTED:
            yield ""
        else:
            # Of alternating fonts, as in `.BR ls (1)`, the arguments are one word.
            joint = "" if name in ("BR", "RB", "BI", "IB", "IR", "RI") else " "
            words = _mdoc(name, _arguments(rest))
            if name == "Nm":  # without a name, it is the one given first
                about = about or " ".join(words[:1])
                words = words if words and words[0].isalnum() else [about, *words]
            yield _body(_BEFORE_MARK.sub("", joint.join(words)), is_preformatted)


def _body(line: str, is_preformatted: bool) -> str:
    """Return a line that Markdown does not take for a heading."""
    return f"    {line}" if line and (is_preformatted or line.startswith("#")) else line


def _arguments(rest: str) -> list[str]:
    comment = rest.find('\\"')
    rest = rest if comment < 0 else rest[:comment]
    return [_plain(quoted.replace('""', '"') or bare) for quoted, bare in _ARGUMENT.findall(rest)]


def _mdoc(name: str, arguments: list[str]) -> list[str]:
    """Return the arguments of a macro, of which `mdoc` marks flags and names by macros among them."""
    if not name.istitle() or len(name) != 2:
        return arguments
    shown: list[str] = []
    for word in (name, *arguments):
        if word == "Fl":
            shown.append("-")
        elif len(word) == 2 and word.istitle():
            continue
        elif shown[-1:] == ["-"]:
            shown[-1] += word
        else:
            shown.append(word)
    return shown


def _plain(text: str) -> str:
    """Return text without escape sequences."""
    return _ESCAPE.sub(_glyph, text) if "\\" in text else text


def _glyph(match: re.Match[str]) -> str:
    *names, char = match.groups()
    if char is not None:
        return _CHARS.get(char, "")
    name = next(filter(None, names), "")
    if re.fullmatch(r"u[0-9A-F]{4,6}", name):
        point = int(name[1:], 16)
        return chr(point) if point < 0xD800 or 0xDFFF < point <= 0x10FFFF else ""
    return _GLYPHS.get(name, "")


def read_pod(data: bytes) -> Iterator[Part]:
    """Yield the text of a page in POD."""
    yield text_part("\n".join(_pod_lines(decoded_text(data).split("\n"))), Syntax.MARKDOWN)


def _pod_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the shown text of each line of POD, so that line numbers stay."""
    for line in lines:
        command = _COMMAND.match(line)
        if command is None:
            yield line if line[:1] in (" ", "\t") else _body(_without_codes(line), False)
        elif command[1] == "head":
            yield "#" * int(command[2] or 1) + " " + _without_codes(command[3])
        else:
            yield "- " + _without_codes(command[3].removeprefix("* ")) if command[1] == "item" else ""


def _without_codes(text: str) -> str:
    """Return text without codes such as `B<bold>`, the innermost first; of a link, its text."""
    if len(text) > _MAX_POD_CHARS:  # no author's line: looking for the ends of codes would take long
        return text
    for _ in range(_MAX_POD_DEPTH):
        if "<" not in text:
            break
        text = _CODE.sub(_shown, text)
    return text.translate(_UNMASKED)


def _shown(match: re.Match[str]) -> str:
    inner = next(text for text in match.groups() if text is not None)
    if match[0][0] == "E":
        return _ENTITIES.get(inner, "").translate(_MASKED)
    if match[0][0] in "XZ":
        return ""
    shown = inner.partition("|")[0] if match[0][0] == "L" else inner
    return shown.translate(_MASKED)
