"""E-mail: a message, or a mailbox of them, with sender, date and subject."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime

from kaosmem.formats.delimiters import PROVIDERS_ROLES
from kaosmem.ingest.files import decoded_as, one_line, storable
from kaosmem.ingest.pieces import DocumentPart, Syntax, UnreadablePlace, cut_into_pieces
from kaosmem.ingest.web import html_text
from kaosmem.types import JSONDict
from kaosmem.types.items import utc_time

_SHOWN_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_MAX_ROLE_CHARS = 64
_MAX_HEADER_CHARS = 2_000
_NAMED_ADDRESS = re.compile(r"([^<]*)<([^<>\s]+)>")
"""`email.utils.parseaddr` reads some senders otherwise since Python 3.13."""
_FROM_LINE = re.compile(rb"(?:\A|\n\r?\n)From [^\n]*\d{4}\r?\n")


def read_message(data: bytes) -> Iterator[DocumentPart | UnreadablePlace]:
    """Return the text of a message, and its attachments as lost."""
    return _message(data, "mail")


def read_mailbox(data: bytes) -> Iterator[DocumentPart | UnreadablePlace]:
    """Yield the messages of a mailbox in the format mbox."""
    for number, message in enumerate(_FROM_LINE.split(data)[1:], 1):
        unquoted = message.replace(b"\n>From ", b"\nFrom ")
        yield from _message(unquoted, f"mail{number}")


def _message(data: bytes, place: str) -> Iterator[DocumentPart | UnreadablePlace]:
    # The newer policies parse long headers in quadratic time.
    message = BytesParser().parsebytes(data)
    headers = {name: _header(message, name) for name in _SHOWN_HEADERS}
    text = "\n\n".join((_shown(headers), *_bodies(message)))
    pieces = cut_into_pieces(storable(text), Syntax.TEXT, titled=False)
    yield DocumentPart(pieces, place, metadata=_metadata(headers), role=_sender(headers["From"]))
    for part in message.walk():
        if not (part.is_multipart() or _is_body(part)):
            name = one_line(part.get_filename() or part.get_content_type(), 100)
            yield UnreadablePlace(
                f"{place}/{name}", "an attachment", "save it as a file of its own"
            )


def _metadata(headers: Mapping[str, str]) -> JSONDict:
    """Return the title and the time of a message, as far as its headers state them."""
    subject = headers["Subject"]
    stated = {"title": subject, "heading": subject, "timestamp": _timestamp(headers["Date"])}
    if utc_time(stated) is None:
        del stated["timestamp"]
    return {name: value for name, value in stated.items() if value}


def _bodies(part: Message) -> Iterator[str]:
    """Yield the texts of a message, also of messages in it; of alternatives the first with text."""
    if not part.is_multipart():
        if _is_body(part):
            yield _text(part)
        return
    children = [child for child in part.get_payload() if isinstance(child, Message)]
    if part.get_content_type() == "message/rfc822":
        for child in children:
            yield _shown({name: _header(child, name) for name in _SHOWN_HEADERS})
    if part.get_content_type() != "multipart/alternative":
        for child in children:
            yield from _bodies(child)
        return
    children.sort(key=lambda child: child.get_content_type() != "text/plain")
    for child in children:
        texts = list(_bodies(child))
        if any(text and not text.isspace() for text in texts):
            yield from texts
            return


def _shown(headers: Mapping[str, str]) -> str:
    """Return the headers that are given, a line each."""
    lines = [f"{name}: {header}" for name, header in headers.items() if header]
    return "\n".join(lines)


def _is_body(part: Message) -> bool:
    """Return whether a part is a text of its message, and no attachment."""
    if part.get_content_type() not in ("text/plain", "text/html"):
        return False
    return part.get_filename() is None


def _text(part: Message) -> str:
    """Return the text of a part."""
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        data = b""
    try:
        text = decoded_as(part.get_content_charset("utf-8"), data)
    except (LookupError, ValueError):  # an unknown charset, or bytes that are not of it
        text = data.decode("utf-8", "replace")
    if part.get_content_subtype() == "html":
        return html_text(text)
    return text


def _header(message: Message, name: str) -> str:
    """Return a header as text; of a longer one, the beginning."""
    value = str(message[name] or "")[:_MAX_HEADER_CHARS]
    try:
        return one_line(str(make_header(decode_header(value))))
    except (LookupError, ValueError):
        return one_line(value)  # the charset is unknown, or the words are not encoded as they say


def _sender(header: str) -> str:
    """Return the name and the address of a sender.

    A stranger may have any name, and would correct what the real sender has written.
    """
    sender = header
    found = _NAMED_ADDRESS.match(header)
    if found:
        address = found[2]
        room = max(0, _MAX_ROLE_CHARS - len(address) - 1)
        name = found[1].strip(' "')[:room]
        sender = address if name == address else f"{name} {address}"
    sender = one_line(sender, _MAX_ROLE_CHARS)
    # Or a mail from "user" would be shown as words of the user.
    is_role = sender.casefold() in PROVIDERS_ROLES
    if is_role or not sender.isprintable():
        return ""
    return sender


def _timestamp(header: str) -> str:
    try:
        sent = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return ""
    if sent.tzinfo is None:
        sent = sent.replace(tzinfo=UTC)
    return sent.isoformat()
