"""E-mail: a message, or a mailbox of them, with sender, date and subject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser
from email.utils import parseaddr, parsedate_to_datetime

from kaosmem.ingest.files import one_line, storable
from kaosmem.ingest.pieces import Lost, Part, Syntax, cut
from kaosmem.ingest.web import html_text
from kaosmem.types import JSONValue

_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_ROLE_CHARS = 64
_MAX_HEADER_CHARS = 2_000
_FROM_LINE = re.compile(rb"(?:\A|\n\r?\n)From [^\n]*\d{4}\r?\n")


def read_message(data: bytes) -> Iterator[Part | Lost]:
    """Yield the text of a message, and its attachments as lost."""
    yield from _message(data, "mail")


def read_mailbox(data: bytes) -> Iterator[Part | Lost]:
    """Yield the messages of a mailbox in the format mbox."""
    begins = [(match.start(), match.end()) for match in _FROM_LINE.finditer(data)]
    ends = [start for start, _ in begins[1:]] + [len(data)]
    for number, ((_, begin), end) in enumerate(zip(begins, ends, strict=True), 1):
        yield from _message(data[begin:end].replace(b"\n>From ", b"\nFrom "), f"mail{number}")


def _message(data: bytes, place: str) -> Iterator[Part | Lost]:
    # The newer policies parse long headers in quadratic time.
    message = BytesParser().parsebytes(data)
    headers = {name: _header(message, name) for name in _SHOWN_HEADERS}
    shown = "\n".join(f"{name}: {header}" for name, header in headers.items() if header)
    metadata: dict[str, JSONValue] = {}
    if subject := headers.get("Subject"):
        metadata["title"] = subject
        metadata["heading"] = subject
    if timestamp := _timestamp(headers.get("Date", "")):
        metadata["timestamp"] = timestamp
    parts = [part for part in message.walk() if not part.is_multipart()]
    body = max(
        filter(_is_body, parts),
        key=lambda part: part.get_content_subtype() == "plain",
        default=None,
    )
    text = storable(f"{shown}\n\n{_text(body) if body else ''}")
    untitled = (piece._replace(title="") for piece in cut(text, Syntax.TEXT))
    yield Part(untitled, place, metadata=metadata, role=_sender(headers.get("From", "")))
    for part in parts:
        if not _is_body(part):
            name = one_line(part.get_filename() or part.get_content_type(), 100)
            yield Lost(f"{place}/{name}", "an attachment", "save it as a file of its own")


def _is_body(part: Message) -> bool:
    return part.get_content_type() in ("text/plain", "text/html") and part.get_filename() is None


def _text(part: Message) -> str:
    data = part.get_payload(decode=True)
    data = data if isinstance(data, bytes) else b""
    try:
        text = data.decode(part.get_content_charset("utf-8"))
    except (LookupError, ValueError):  # an unknown charset, or bytes that are not of it
        text = data.decode("utf-8", "replace")
    if part.get_content_subtype() != "html":
        return text
    return html_text(text)


def _header(message: Message, name: str) -> str:
    """Return a header as text; of a longer one, the beginning."""
    value = str(message[name] or "")[:_MAX_HEADER_CHARS]
    try:
        return one_line(str(make_header(decode_header(value))))
    except (LookupError, ValueError):
        return one_line(value)  # the charset is unknown, or the words are not encoded as they say


def _sender(header: str) -> str:
    name = one_line(next(filter(None, parseaddr(header)), ""), _MAX_ROLE_CHARS)
    return name if name.isprintable() else ""


def _timestamp(header: str) -> str:
    try:
        sent = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return ""
    return (sent.replace(tzinfo=UTC) if sent.tzinfo is None else sent).isoformat()
