"""Contexts of random sessions: assembled, handed over, and counted again from scratch."""

import asyncio

from kaosmem import (
    WindowTooSmallError,
)
from kaosmem.formats import count_messages
from kaosmem.formats.delimiters import BLOCK_BEGIN


def words(text):
    """Count as a user's own counter might: not additive, and nothing said about it."""
    return -(-len(text) // 4)


COUNTERS = (None, None, "estimate", "cl100k_base", words)


def assembled(world, query, budget, format, **options):
    try:
        return asyncio.run(
            world.memory.assemble_context(query, budget=budget, format=format, **options)
        )
    except WindowTooSmallError as error:
        return error


def handed_over(context):
    return context.text if context.format == "text" else (context.rendered.system, context.messages)


def counted(context, counter=None):
    """Return the tokens of what a user takes out of a context, from scratch."""
    handed_over = context.text if context.format == "text" else context.messages
    system = context.rendered.system or ""
    return count_messages(handed_over, context.format, system=system, counter=counter)


MERGING = ("bedrock", "gemini")
"""Formats in which neighbours of one role are one message: its parts are what stays."""


def _parts_before_block(context):
    parts = []
    for message in context.messages:
        content = message["parts" if context.format == "gemini" else "content"]
        shown = [part for part in content if not part.get("text", "").startswith(BLOCK_BEGIN)]
        parts += [(message["role"], part) for part in shown]
    return parts


def before_block(context):
    """Return what stands before the query's block, messages or lines, the newest message that holds it left whole."""
    if context.format == "text":
        return list(context.text.partition("## documents\n")[0])
    messages = [] if context.rendered.system is None else [context.system]
    if context.format in MERGING:
        return [*messages, *_parts_before_block(context)]
    for message in context.messages:
        content = message.get("content") or ""
        if isinstance(content, str) and content.startswith(BLOCK_BEGIN):
            continue
        if isinstance(content, list) and content[0].get("text", "").startswith(BLOCK_BEGIN):
            rest = content[1:]
            message = {**message, "content": rest[0]["text"] if len(rest) == 1 else rest or ""}
        messages.append(message)
    return messages


def sums_of(report):
    """Return the rows of an explanation's sums: the name, the tokens, and the length of the bar."""
    lines = report[report.index("\nsection") :].splitlines()[2:]
    rows = []
    for line in lines:
        name, used, *_ = line.split()
        rows.append((name, int(used.replace(",", "")), line.count("█")))
        if name == "budget":
            break
    return rows
