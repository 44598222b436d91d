"""Short-term memory: the state of a session."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping

from kaosmem.arguments import check_json
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import check_id
from kaosmem.types import JSONDict, JSONObject


class ShortTermMemory(ABC):
    """One state for each session: JSON values by name.

    An unknown state is {}. An id is any text of 1 to 256 characters without control characters. All
    methods raise InvalidNameError for another id, and InvalidArgumentError for values that JSON
    cannot hold.

    A store is a subclass with the abstract methods, which get checked values.
    """

    async def get_state(self, session_id: str) -> JSONDict:
        """Return the state."""
        return await self._read(check_id(session_id, "session id"))

    async def set_state(self, session_id: str, state: JSONObject) -> None:
        """Put a state in the place of the one before."""
        await self._change(check_id(session_id, "session id"), check_state(state), replace=True)

    async def update_state(self, session_id: str, patch: JSONObject) -> JSONDict:
        """Replace the values of the patch's names, in one step, and return the state.

        A value is replaced as a whole. Other names keep their values.
        """
        return await self._change(
            check_id(session_id, "session id"), check_state(patch), replace=False
        )

    async def clear(self, session_id: str) -> None:
        """Delete the state."""
        await self._change(check_id(session_id, "session id"), {}, replace=True)

    @abstractmethod
    async def list_states(self) -> list[str]:
        """Return the ids of the sessions that have a state with a value, sorted."""

    @abstractmethod
    async def delete_all(self) -> None:
        """Delete everything that the store holds: all of its tenant."""

    @abstractmethod
    async def _read(self, session_id: str) -> JSONDict:
        """Return a state, {} for an unknown one."""

    @abstractmethod
    async def _change(
        self,
        session_id: str,
        patch: JSONDict,
        *,
        replace: bool,
    ) -> JSONDict:
        """Set the values of the patch's names, in one step, and return the state.

        Args:
            replace: Whether the values of other names are deleted.
        """


class InMemoryShortTermMemory(ShortTermMemory):
    """A ShortTermMemory in this process.

    >>> states = InMemoryShortTermMemory()
    >>> await states.update_state("room-7", {"step": 2})
    {'step': 2}
    """

    def __init__(self) -> None:
        self._states: dict[str, JSONDict] = {}

    async def list_states(self) -> list[str]:
        return sorted(self._states)

    async def delete_all(self) -> None:
        self._states.clear()

    async def _read(self, session_id: str) -> JSONDict:
        return copy.deepcopy(self._states.get(session_id, {}))

    async def _change(
        self,
        session_id: str,
        patch: JSONDict,
        *,
        replace: bool,
    ) -> JSONDict:
        if replace:
            state = patch
        else:
            state = self._states.get(session_id, {}) | patch
        self._states[session_id] = state
        if not state:
            del self._states[session_id]
        return copy.deepcopy(state)


def check_state(state: object) -> JSONDict:
    """Return a copy of a state that JSON holds exactly. Raises InvalidArgumentError."""
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(
            f"a state is a {type(state).__name__}; give a mapping with str keys"
        )
    copied: JSONDict = check_json(state, "state")
    return copied
