"""The instructions and tools of one call: counted and sent with the request, but not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from kaosmem.arguments import JSONDict, check_text, json_text
from kaosmem.assembly import Offers
from kaosmem.assembly.allocation import FRAME, window_too_small
from kaosmem.assembly.context import Context
from kaosmem.assembly.windows import text_digest
from kaosmem.formats import Format, Layout, Rendered, tool_dicts, tool_tokens
from kaosmem.tokens.counters import TokenCounter

T = TypeVar("T")

_NOTHING = Layout((), (), ())


@dataclass(frozen=True)
class Instructions:
    """The system prompt and the tools of one call.

    Args:
        system: The instructions, as they are sent.
        tools: The schemas of the tools in the format of the call.

    Raises:
        InvalidArgumentError: If the instructions are no text, or a tool is no dict or object of an
            SDK.
    """

    system: str = ""
    tools: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        check_text(self.system, "system")

    @classmethod
    def of(cls, system: str, tools: Iterable[object]) -> Instructions:
        """Return the instructions of a call. Raises InvalidArgumentError."""
        given = cls(system, tuple(tools))
        if given.tools:
            given._schemas  # noqa: B018 - to check them before anything is asked
        return given

    @cached_property
    def _schemas(self) -> list[JSONDict]:
        return tool_dicts(self.tools)

    @property
    def digest(self) -> str:
        """Return a digest of all that a provider may bind thinking to; "" for no instructions."""
        if not self.system.strip() and not self.tools:
            return ""
        return text_digest(json_text([self.system, self._schemas]))

    def packed(
        self, offers: Offers, make: Callable[[Offers], tuple[Context, T]]
    ) -> tuple[Context, T]:
        """Return a context with the instructions, and the rest of what `make` returns.

        Args:
            offers: All that may be shown, for the whole budget.
            make: Packs offers into the room that the instructions leave.

        Raises:
            WindowTooSmallError: If the instructions leave too little room.
        """
        if not self.digest:
            return make(offers)
        budget = offers.budget - offers.reserve
        needed = self._tokens(offers.format, offers.counter)
        while True:
            if needed > budget:
                raise window_too_small({FRAME: needed}, budget)
            context, rest = make(replace(offers, reserve=offers.reserve + needed))
            whole = self._before(context, budget)
            if whole.used <= budget:
                return whole, rest
            # A counter that is not additive may find more in texts that stand together.
            needed += whole.used - budget

    def _tokens(self, format: Format, counter: TokenCounter) -> int:
        """Return the tokens of a request of the instructions alone."""
        alone = self._joined(format.render(_NOTHING))
        return format.count(alone, counter) + tool_tokens(self._schemas, format, counter)

    @property
    def _piece(self) -> str:
        text = self.system.strip()
        return f"{text}\n" if text else ""

    def _joined(self, rendered: Rendered) -> Rendered:
        """Return a request that begins with the instructions."""
        if not self._piece:
            return rendered
        if rendered.text is not None:
            return replace(rendered, text=self._piece + rendered.text)
        if rendered.system is not None:
            return replace(rendered, system=self._piece + rendered.system)
        message = {"role": "system", "content": self.system.strip()}
        return replace(rendered, messages=[message, *(rendered.messages or ())])

    def _before(self, context: Context, budget: int) -> Context:
        """Return a context with the instructions before it, in a budget for both."""
        rendered = self._joined(context.rendered)
        added = self._added(context, rendered)
        shift = len(rendered.messages or ()) - len(context.rendered.messages or ())
        return replace(
            context,
            budget=budget,
            used=context.used + added,
            frame=context.frame + added,
            rendered=rendered,
            tools=self.tools,
            prefix_tokens=context.prefix_tokens + added if context.prefix_tokens else 0,
            cache_breakpoints=tuple(at + shift for at in context.cache_breakpoints),
        )

    def _added(self, context: Context, rendered: Rendered) -> int:
        """Return the tokens that the instructions add: messages add up, so that one is enough."""
        count = context._format.count
        counter = context._counter
        before = context.rendered
        if before.text is not None:
            added = count(rendered, counter) - count(before, counter)
        else:
            first = before.messages[:1] if before.messages else []
            alone = replace(before, messages=first)
            added = count(self._joined(alone), counter) - count(alone, counter)
        return added + tool_tokens(self._schemas, context._format, counter)


NO_INSTRUCTIONS = Instructions()
