"""Records of JSONL: one a line, its text and what else it says of itself."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

from kaosmem.ingest.files import with_newlines
from kaosmem.types import JSONValue

_TEXTS = ("text", "content", "body", "message")
_DOCUMENTS = ("document", "session", "conversation", "source")
"""Where a record says which document or conversation it is from, the first that is there."""
_MAX_FIELD_CHARS = 500
_MAX_ROLE_CHARS = 64


class Record(NamedTuple):
    """The text of a record, its role, and the fields that ranking and filters may use."""

    text: str
    role: str
    fields: dict[str, JSONValue]


def parsed(line: str) -> Record:
    """Return the record of a line.

    The text is the first of text, content, body and message that is one; a record without any is shown as compact
    JSON. Of the rest, `title` and `timestamp` keep their names, `id` becomes `record`, and the first of document,
    session, conversation and source becomes `document`, as an item's `source` is the file.
    Raises ValueError for a line that is not JSON.
    """
    try:
        value = json.loads(line)
        if isinstance(value, str):
            return Record(storable(value), "", {})
        if not isinstance(value, dict):
            return Record(storable(_compact(value)), "", {})
        text = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
        text = _compact(value) if text is None else text
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg.lower()} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    fields = {name: _scalar(value.get(name)) for name in ("title", "timestamp")}
    fields["record"] = _scalar(value.get("id"))
    documents = (_scalar(value[name]) for name in _DOCUMENTS if name in value)
    fields["document"] = next((document for document in documents if document), None)
    kept: dict[str, JSONValue] = {name: field for name, field in fields.items() if field not in (None, "")}
    role = value.get("role")
    if not isinstance(role, str) or len(role) > _MAX_ROLE_CHARS or not role.isprintable():
        role = ""
    return Record(storable(text), role, kept)


def storable(text: str) -> str:
    r"""Return text without blank ends, `\n` between lines, U+FFFD for what JSON escapes but UTF-8 can't hold."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = with_newlines(text)
    # Without blank lines at its ends, but with the indentation of its first line.
    return text[text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1 : len(text.rstrip())]


def _compact(value: JSONValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _scalar(value: JSONValue) -> str | int | float | None:
    if isinstance(value, str):
        return " ".join(storable(value).split())[:_MAX_FIELD_CHARS]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None
