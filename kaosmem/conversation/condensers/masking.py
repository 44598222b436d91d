"""Condensers that keep every event and replace old observations by placeholders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kaosmem.arguments import check_count, check_instance
from kaosmem.conversation.condensation import Condensation
from kaosmem.conversation.condensers.condenser import Condenser
from kaosmem.conversation.event import ConversationEvent
from kaosmem.conversation.observation import ObservationEvent
from kaosmem.conversation.view import ConversationView
from kaosmem.errors import InvalidArgumentError
from kaosmem.types import check_text

PLACEHOLDER = "[what came back is left out: event {id}]"


@dataclass(frozen=True, slots=True)
class MaskingConfig:
    """Limits of a masking condenser.

    window: number of newest entries that are shown whole.
    placeholder: stands for a masked entry; `{id}` in it is the entry's id.
    Raises InvalidArgumentError.
    """

    window: int = 100
    placeholder: str = PLACEHOLDER

    def __post_init__(self) -> None:
        check_count(self.window, "window")
        try:
            check_text(self.placeholder, "placeholder").format(id=0)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"placeholder is no template, by {type(error).__name__}; the only name in braces is {{id}}"
            ) from None


class MaskingCondenser(Condenser):
    """Shows a placeholder for each masked observation, in its place and as the result of the same call."""

    def __init__(self, config: MaskingConfig) -> None:
        self.config = check_instance(config, MaskingConfig, "config")
        self._masked: dict[
            int, tuple[ConversationEvent, ConversationEvent]
        ] = {}  # by id, those of the last view: the same each time

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config})"

    @abstractmethod
    def masked(self, view: ConversationView) -> Iterator[int]:
        """Yield the positions of the masked observations."""
        ...

    async def condense(self, view: ConversationView, *, limit: int | None = None) -> ConversationView | Condensation:
        """Return the view with placeholders; protected entries stay."""
        kept = view.protected
        events = list(view)
        known, self._masked = self._masked, {}
        for position in self.masked(view):
            event = events[position]
            if isinstance(event, ObservationEvent) and position not in kept:
                origin, masked = known.get(event.id, (None, event))
                if origin is not event:
                    masked = replace(event, content=self.config.placeholder.format(id=event.id), recalled=())
                self._masked[event.id] = event, masked
                events[position] = masked
        return ConversationView(events, view.unhandled_condensation_request)


class ObservationMaskingCondenser(MaskingCondenser):
    """Masks the observations before the newest entries."""

    def __init__(self, config: MaskingConfig = MaskingConfig()) -> None:
        super().__init__(config)

    def masked(self, view: ConversationView) -> Iterator[int]:
        """Yield the positions before the window."""
        yield from range(len(view) - self.config.window)


class BrowserOutputCondenser(MaskingCondenser):
    """Masks all browser outputs but the newest: pages are large and soon outdated."""

    def __init__(self, config: MaskingConfig = MaskingConfig(window=1)) -> None:
        super().__init__(config)

    def masked(self, view: ConversationView) -> Iterator[int]:
        """Yield the positions of browser outputs before the window."""
        outputs = [position for position, event in enumerate(view) if getattr(event, "kind", "") == "browser_output"]
        yield from outputs[: max(0, len(outputs) - self.config.window)]
