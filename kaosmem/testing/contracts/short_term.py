"""The contract of every ShortTermMemory."""

from __future__ import annotations

import asyncio
from typing import Any

from kaosmem.stores.state import ShortTermMemory
from kaosmem.testing.contracts.store import IDS, StoreContract


class ShortTermContract(StoreContract[ShortTermMemory]):
    """Every ShortTermMemory passes this: subclass it and provide `make`."""

    keys = IDS

    async def write(
        self,
        store,
        key,
        text,
    ):
        await store.set_state(key, {text[:99]: [text, {text: text}]})

    async def read(self, store, key):
        state = await store.get_state(key)
        if not state:
            return None
        [(name, (text, nested))] = state.items()
        assert name == text[:99]
        assert nested == {text: text}
        return str(text)

    async def drop(
        self,
        store,
        key,
        way,
    ):
        await (store.clear(key) if way == 0 else store.set_state(key, {}))

    async def listed(self, store):
        return await store.list_states()

    async def test_a_state_replaces_the_one_before(self, store):
        """Nothing is left of it."""
        await store.set_state("s", {"plan": [1], "step": 1})
        await store.set_state("s", {"step": 2})
        assert await store.get_state("s") == {"step": 2}

    async def test_a_patch_replaces_values_whole(self, store):
        """Values are not merged, and None is a value. Names that the patch lacks stay."""
        await store.set_state("s", {"plan": {"a": 1}, "step": 1, "kept": True})
        merged: dict[str, Any] = {"plan": {"b": 2}, "step": None, "kept": True, "new": []}
        assert await store.update_state("s", {"plan": {"b": 2}, "step": None, "new": []}) == merged
        assert await store.get_state("s") == merged
        assert await store.update_state("s", {}) == merged
        assert await store.update_state("new", {"a": 1}) == {"a": 1}

    async def test_a_hundred_patches_at_once_are_all_there(self, store):
        """No update is lost to another that read the state before it was written."""
        await store.set_state("s", {"kept": True})
        returned = await asyncio.gather(
            *(store.update_state("s", {f"task {n}": n}) for n in range(100))
        )
        assert await store.get_state("s") == {"kept": True} | {f"task {n}": n for n in range(100)}
        assert sorted(len(state) for state in returned) == list(range(2, 102))

    async def test_numbers_come_back_unchanged(self, store):
        """Numbers have the same type and the same last bit. True and None are values."""
        state = {"numbers": [0, -1, 2**63 - 1, -(2**63), 0.1, 1e300, 5e-324, True, None]}
        await store.set_state("s", state)
        read = await store.get_state("s")
        assert read == state
        assert [type(each) for each in read["numbers"]] == [type(each) for each in state["numbers"]]
