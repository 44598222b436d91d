"""The current agent and thread, for each asyncio task or thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kaosmem.errors import NotFoundError
from kaosmem.names import check_id

current_thread_id: ContextVar[str | None] = ContextVar("current_thread_id", default=None)
current_agent_id: ContextVar[str | None] = ContextVar("current_agent_id", default=None)
current_agent_label: ContextVar[str | None] = ContextVar("current_agent_label", default=None)
current_parent_agent_id: ContextVar[str | None] = ContextVar("current_parent_agent_id", default=None)


@contextmanager
def agent_scope(agent_id: str, *, thread_id: str | None = None, label: str | None = None) -> Iterator[None]:
    """Set the current agent and thread inside the block. The earlier ones are back after it, also after an exception.

    The agent around the block becomes the parent. Tasks that are started inside inherit the scope. Do not put a `yield`
    inside: a generator's code runs in the scope of its caller.
    thread_id: the conversation. The default is that of the scope around the block.
    label: the agent's name for people. The default is its id.
    Raises InvalidNameError for an id.

    >>> with agent_scope("reader", thread_id="deal-42"):
    ...     current_board_key()
    ('deal-42', 'reader')
    """
    values = (
        (current_parent_agent_id, current_agent_id.get()),
        (current_agent_id, check_id(agent_id, "agent id")),
        (current_agent_label, agent_id if label is None else label),
        (current_thread_id, current_thread_id.get() if thread_id is None else check_id(thread_id, "thread id")),
    )
    tokens = [(variable, variable.set(value)) for variable, value in values]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)


def current_board_key() -> tuple[str, str]:
    """Return the conversation id and the agent id of the current agent's board. Raises NotFoundError."""
    thread_id, agent_id = current_thread_id.get(), current_agent_id.get()
    if thread_id is None or agent_id is None:
        raise NotFoundError(
            "no agent is at work in a thread; enter agent_scope(agent_id, thread_id=...) before asking for its board"
        )
    return thread_id, agent_id
