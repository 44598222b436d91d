"""E-mail: a message, or a mailbox of them, with sender, date and subject."""

from __future__ import annotations

import email.policy
import re
from collections.abc import Iterator
from datetime import UTC
from email.message import EmailMessage
from email.parser import BytesParser

from kaosmem.ingest.files import one_line, storable
from kaosmem.ingest.parts import Lost, Part
from kaosmem.ingest.pieces import Syntax, cut
from kaosmem.types import JSONValue

_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_ROLE_CHARS = 64
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
    message = BytesParser(EmailMessage, policy=email.policy.default).parsebytes(data)
    headers = {name: one_line(str(message[name])) for name in _SHOWN_HEADERS if message[name]}
    shown = "\n".join(f"{name}: {value}" for name, value in headers.items())
    metadata: dict[str, JSONValue] = {}
    if subject := headers.get("Subject"):
        metadata["title"] = metadata["heading"] = subject
    if timestamp := _timestamp(message):
        metadata["timestamp"] = timestamp
    text = storable(f"{shown}\n\n{_body(message)}")
    untitled = (piece._replace(title="") for piece in cut(text, Syntax.TEXT))
    yield Part(untitled, place, metadata=metadata, role=_sender(message))
    for attachment in message.iter_attachments():
        name = one_line(attachment.get_filename() or attachment.get_content_type(), 100)
        yield Lost(f"{place}/{name}", "an attachment", "save it as a file of its own")


def _body(message: EmailMessage) -> str:
    body = message.get_body(("plain", "html"))
    if body is None:
        return ""
    try:
        content = str(body.get_content())
    except (LookupError, ValueError):  # an unknown charset, or none that fits
        content = bytes(body.get_payload(decode=True) or b"").decode("utf-8", "replace")
    if body.get_content_subtype() == "html":
        from kaosmem.ingest.web import html_text

        return html_text(content)
    return content


def _sender(message: EmailMessage) -> str:
    senders = getattr(message["From"], "addresses", ())
    name = one_line(senders[0].display_name or senders[0].addr_spec, _MAX_ROLE_CHARS) if senders else ""
    return name if name.isprintable() else ""


def _timestamp(message: EmailMessage) -> str:
    sent = getattr(message["Date"], "datetime", None)
    if sent is None:
        return ""
    return str((sent.replace(tzinfo=UTC) if sent.tzinfo is None else sent).isoformat())
