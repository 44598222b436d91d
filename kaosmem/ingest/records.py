"""Records: JSON, JSON lines, and notebooks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from kaosmem.ingest.files import decoded_text, one_line, storable
from kaosmem.ingest.pieces import DocumentPart, Piece, Syntax, UnreadablePlace, cut_into_pieces
from kaosmem.types import JSONDict, JSONValue
from kaosmem.types.items import utc_time

MAX_RECORD_CHARS = 8_000
"""A record has the size that its writer gave it; only a larger one is cut."""

_TEXTS = ("text", "content", "body", "message")
_DOCUMENTS = ("document", "session", "conversation", "source")
"""Where a record says which document or conversation it is from, the first that is there."""
_MAX_ROLE_CHARS = 64
_TIMELESS = "the record is read without it; write ISO 8601, such as 2024-05-07, or a Unix time"
_UNIX_TIMES = (10**8, 4 * 10**9)
"""Unix times from 1973 to 2096. In milliseconds, no number of these years is one in seconds."""


class TextRecord(NamedTuple):
    """The text of a record, its role, and the fields that ranking and filters may use."""

    text: str
    role: str
    fields: JSONDict


def read_jsonl(data: bytes) -> Iterator[DocumentPart | UnreadablePlace]:
    """Yield the records of a file, and its lines that are not JSON.

    A record whose `timestamp` is no time is yielded without it, and its line is named.
    """
    for number, line in enumerate(decoded_text(data).split("\n"), 1):
        if not line.strip():
            continue
        place = f"L{number}"
        try:
            record = parsed(line)
        except ValueError as error:
            yield UnreadablePlace(place, "not JSON", str(error))
            continue
        if record.fields.get("timestamp") and utc_time(record.fields) is None:
            yield UnreadablePlace(place, "timestamp is no time", _TIMELESS)
            del record.fields["timestamp"]
        pieces = []
        if len(record.text) > MAX_RECORD_CHARS:
            # The title of a record is its own: headings are no titles.
            pieces = list(cut_into_pieces(record.text, Syntax.MARKDOWN, titled=False))
        elif record.text:
            pieces = [Piece(number, number, 0, record.text, "")]
        metadata = {"lines": [number, number], **record.fields}
        yield DocumentPart(pieces, place, metadata=metadata, role=record.role)


def parsed(line: str) -> TextRecord:
    """Return the record of a line.

    The text is the first of text, content, body and message that is one; a record without any is
    shown as compact JSON. Of the rest, `title` and `timestamp` keep their names, `id` becomes
    `record`, and the first of document, session, conversation and source becomes `document`, as an
    item's `source` is the file. Raises ValueError for a line that is not JSON.
    """
    try:
        value = json.loads(line)
        text = _text_of(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg.lower()} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        return TextRecord(storable(text), "", {})
    role = value.get("role")
    if not isinstance(role, str) or len(role) > _MAX_ROLE_CHARS or not role.isprintable():
        role = ""
    return TextRecord(storable(text), role, _fields_of(value))


def _text_of(value: JSONValue) -> str:
    """Return the text of a record, or the record as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in _TEXTS:
            text = value.get(name)
            if isinstance(text, str):
                return text
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fields_of(record: JSONDict) -> JSONDict:
    """Return the fields of a record that ranking and filters may use, without empty ones."""
    documents = [_scalar(record.get(name)) for name in _DOCUMENTS]
    fields = {
        "title": _scalar(record.get("title")),
        "timestamp": _timestamp(_scalar(record.get("timestamp"))),
        "record": _scalar(record.get("id")),
        "document": next(filter(None, documents), None),
    }
    return {name: field for name, field in fields.items() if field not in (None, "")}


def _scalar(value: JSONValue) -> str | int | float | None:
    """Return a text on one line, or a number that can be stored; None for any other value."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return None


def _timestamp(stated: str | float | None) -> str | float | None:
    """Return a Unix time, in seconds or milliseconds, in ISO 8601, and any other value as it is."""
    if isinstance(stated, str) or stated is None:
        return stated
    first, last = _UNIX_TIMES
    for per_second in (1, 1_000):
        seconds = stated / per_second
        if first <= seconds <= last:
            return datetime.fromtimestamp(seconds, UTC).isoformat()
    return stated


_MAX_OUTPUT_CHARS = 2_000
_SYNTAXES = {"markdown": Syntax.MARKDOWN, "raw": Syntax.TEXT}


def read_notebook(data: bytes) -> Iterator[DocumentPart]:
    """Yield the cells of a notebook that hold something."""
    notebook = json.loads(decoded_text(data))
    for number, cell in enumerate(notebook["cells"], 1):
        source = storable(_joined(cell["source"]))
        syntax = _SYNTAXES.get(cell["cell_type"], Syntax.CODE)
        metadata = {"cell": number}
        if source:
            yield DocumentPart(cut_into_pieces(source, syntax), f"cell{number}", metadata=metadata)
        outputs = _texts(cell.get("outputs", ()))
        output = storable("\n".join(outputs))[:_MAX_OUTPUT_CHARS]
        if output:
            yield DocumentPart(
                cut_into_pieces(output, Syntax.CODE), f"cell{number}-output", metadata=metadata
            )


def _texts(outputs: Iterable[JSONDict]) -> Iterator[str]:
    """Yield the texts of a cell's outputs."""
    for output in outputs:
        if output["output_type"] == "error":
            yield f"{output.get('ename', 'error')}: {output.get('evalue', '')}"
        elif "text" in output:
            yield _joined(output["text"])
        else:
            yield _joined(output.get("data", {}).get("text/plain", ""))


def _joined(lines: str | list[str]) -> str:
    """Return a text, or the lines of one, as a text. Lines end in newlines."""
    return "".join(lines)
