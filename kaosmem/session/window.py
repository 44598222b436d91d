"""The window that a context continues, as a caller names it."""

from __future__ import annotations

from dataclasses import dataclass

from kaosmem.arguments import check_count, check_text
from kaosmem.assembly.windows import default_block
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import check_name, shown_number


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a session, and how this call continues it.

    Args:
        name: The name of the window. A session may have several.
        block: Tokens of the block of retrieved items that one call appends. The default is a
            sixteenth of the budget, from 512 to 4,096; an eighth of a budget below 4,096.
        model: The model that the request is sent to. Thinking from before a rebase is left out.
            A model without preserved thinking keeps the thinking of the last message if its calls
            were just answered. The default is a model with preserved thinking.
        rebase: Pack the window anew.

    Raises:
        InvalidNameError: If the name is not valid.
        InvalidArgumentError: If another value is not valid.

    >>> from kaosmem import SessionMemory
    >>> memory = SessionMemory.test_mode()
    >>> item = memory.add("messages", "Who owns the deal?")
    >>> window = Window("main", block=200)
    >>> (await memory.assemble_context(budget=1_000, window=window)).window
    'main'
    """

    name: str
    block: int | None = None
    model: str | None = None
    rebase: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "window")
        if not isinstance(self.rebase, bool):
            raise InvalidArgumentError(f"rebase is {shown_number(self.rebase)}; give True or False")
        if self.block is not None:
            check_count(self.block, "block")
        if self.model is not None:
            check_text(self.model, "model")

    def block_of(self, tokens: int) -> int:
        """Return the tokens of the block in a request of so many tokens."""
        return default_block(tokens) if self.block is None else self.block
