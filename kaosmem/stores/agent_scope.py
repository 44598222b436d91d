"""Who is at work: the agent and the thread that a task of the event loop, or a thread, works for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kaosmem.errors import UnknownScopeError
from kaosmem.names import check_id

current_thread_id: ContextVar[str | None] = ContextVar("current_thread_id", default=None)
current_agent_id: ContextVar[str | None] = ContextVar("current_agent_id", default=None)
current_agent_label: ContextVar[str | None] = ContextVar("current_agent_label", default=None)
current_parent_agent_id: ContextVar[str | None] = ContextVar("current_parent_agent_id", default=None)


@contextmanager
def agent_scope(agent_id: str, *, thread_id: str | None = None, label: str | None = None) -> Iterator[None]:
    """Let an agent be at work inside the block, and whoever was before after it, also after an exception.

    The agent around it becomes its parent. Tasks that are started inside inherit the scope; what they set, and what is
    set here after they have been started, stays where it is. Not for a block that yields: what is between the items of
    a generator runs in the scope of whoever asks for them.
    thread_id: the conversation, by default the one of the scope around this. label: what the agent is called, its id
    by default.
    Raises InvalidNameError for an id.
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
    """Return the conversation id and agent id of the board of whoever is at work. Raises UnknownScopeError."""
    thread_id, agent_id = current_thread_id.get(), current_agent_id.get()
    if thread_id is None or agent_id is None:
        raise UnknownScopeError(
            "no agent is at work in a thread; enter agent_scope(agent_id, thread_id=...) before asking for its board"
        )
    return thread_id, agent_id
