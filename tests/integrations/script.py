"""A scripted model that reads a page for each question, and then answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

TOOL = "read_page"
INSTRUCTIONS = "You are a careful analyst. Read the page before you answer."


def read_page(page: int) -> str:
    """Read one page of the file."""
    filler = " ".join(f"Clause {page}.{number} says nothing of interest." for number in range(20))
    return f"Room {page} opens with the code {page * 7919 % 10_000:04}. {filler}"


class Seen(NamedTuple):
    """A message of a request, as a provider would get it.

    calls: ids of the calls. answers: ids of the calls that it answers.
    """

    role: str
    text: str
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass
class Script:
    """The replies of a model, and the requests that it got.

    reading: whether it calls the tool for a question, or answers at once.
    """

    reading: bool = True
    requests: list[list[Seen]] = field(default_factory=list)
    replies: int = 0

    def reply(self, request: Sequence[Seen]) -> tuple[str, dict[str, Any] | None]:
        """Return the text of a reply, and the call in it: id and arguments."""
        self.requests.append(list(request))
        self.replies += 1
        if request[-1].answers or not self.reading:
            return f"Answer {self.replies}.", None
        page = (self.replies + 1) // 2
        return "", {"id": f"call_{self.replies}", "arguments": {"page": page}}


class Agent(Protocol):
    """An agent of a framework."""

    script: Script

    async def ask(self, conversation: str, question: str) -> None:
        """Run the agent on a question of a conversation, whose history the framework keeps."""
