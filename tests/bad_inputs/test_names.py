"""Names that would leave their place, clash, or be obeyed by something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kaosmem import SectionSpec, SessionMemory, delete_session, list_sessions
from kaosmem.errors import InvalidNameError
from kaosmem.persistence.objects import IsolatedMemoryFileSystem
from tests.bad_inputs.stored import everything_in, ids_at, memory_at, session

REFUSED: dict[str, tuple[Any, ...]] = {
    "BI-001": ("../../etc/cron.d/x",),
    "BI-002": ("a/../../b",),
    "BI-004": ("..", "."),
    "BI-005": ("", "   "),
    "BI-006": ("a\x00b",),
    "BI-007": ("a\nb", "a\r\nX: y"),
    "BI-009": ("s[12]", "s?"),
    "BI-010": ("s3://evil-bucket/x", "file:///etc/passwd"),
    "BI-011": ("simplecache::s3://b/k",),
    "BI-012": ("~root",),
    "BI-014": ("..\\..\\x",),
    "BI-017": ("caf\u00e9", "cafe\u0301"),
    "BI-019": ("a" * 129, "a" * 256, "a" * 10_000_000),
    "BI-020": ("-rf", "--help", ".hidden"),
    "BI-021": (None, 5, b"x", object()),
    "BI-105": ("*", "s*"),
    "BI-106": ("{x}",),
}


@pytest.mark.parametrize("names", REFUSED.values(), ids=REFUSED)
async def test_a_name_is_refused_before_anything_is_done(names: tuple[Any, ...], tmp_path: Path) -> None:
    """As session id and as namespace, to open, list and delete; nothing is made, and the message shows at most 80."""
    filesystem = IsolatedMemoryFileSystem()
    for name in names:
        for place in (tmp_path / "root", filesystem):
            for act in (
                memory_at(place, name).__aenter__,
                memory_at(place, namespace=name).__aenter__,
                lambda place=place, name=name: list_sessions(place, name),
                lambda place=place, name=name: delete_session(place, name),
                lambda place=place, name=name: delete_session(place, "s", name),
            ):
                with pytest.raises(InvalidNameError) as caught:
                    await act()
                assert len(str(caught.value)) < 80 + 200
                assert not set(str(caught.value)) & set("\0\r\n")
    assert list(tmp_path.iterdir()) == []
    assert filesystem.store == {}


async def test_bi_015_016_names_that_a_filesystem_would_confuse_are_kept_apart(tmp_path: Path) -> None:
    """What Windows reserves or trims, and names that differ in case, are sessions of their own; a blank is refused."""
    names = ["CON", "nul.txt", "a.", "a", "Alice", "alice"]
    for place in (tmp_path, IsolatedMemoryFileSystem()):
        for name in names:
            await session(place, f"of {name}", session_id=name)
        assert [await ids_at(place, name) for name in names] == [[f"of {name}"] for name in names]
    folders = [folder.name for folder in (tmp_path / "default").iterdir()]
    assert len({folder.casefold().rstrip(". ") for folder in folders}) == len(names)
    assert not {folder.split(".")[0] for folder in folders} & {"con", "nul", "CON"}
    with pytest.raises(InvalidNameError):
        await session(tmp_path, session_id="a ")


@pytest.mark.parametrize("name", ["../history", "a/b", "__proto__", "", "a\0b", None])
def test_bi_022_section_names_are_names_too(name: Any) -> None:
    """A section's name is refused as a session's is."""
    with pytest.raises(InvalidNameError):
        SectionSpec(name)


async def test_bi_022_a_section_is_never_a_part_of_a_path(tmp_path: Path) -> None:
    """Sections may be called as the log's folders are: their names are data in records."""
    specs = [SectionSpec(name) for name in ("log", "snap", "lock", "quarantine")]
    async with SessionMemory.open(tmp_path, "s", sections=specs, counter="estimate") as memory:
        for spec in specs:
            memory.add(spec.name, f"of {spec.name}")
    assert sorted(everything_in(tmp_path)) == [
        "default/s/lock",
        f"default/s/log/{1:020d}.jsonl",
        "default/s/session.json",
    ]
    async with SessionMemory.open(tmp_path, "s", sections=specs, counter="estimate") as memory:
        assert [item.text for spec in specs for item in memory[spec.name]] == [f"of {spec.name}" for spec in specs]


async def test_bi_024_104_two_pairs_of_names_are_never_one_place(tmp_path: Path) -> None:
    """A namespace can't take a part of a session's id over: with a slash it is refused, with a colon kept apart."""
    for namespace, session_id in (("a", "b/c"), ("a/b", "c")):
        with pytest.raises(InvalidNameError):
            await memory_at(tmp_path, session_id, namespace=namespace).__aenter__()
    for place in (tmp_path, IsolatedMemoryFileSystem()):
        pairs = [("a:b", "c"), ("a", "b:c"), ("a", "b.c"), ("a.b", "c")]
        for namespace, session_id in pairs:
            async with memory_at(place, session_id, namespace=namespace) as memory:
                memory.add("messages", "text", id=f"{namespace} {session_id}")
        for namespace, session_id in pairs:
            assert await ids_at(place, session_id, namespace=namespace) == [f"{namespace} {session_id}"]
        await delete_session(place, "c", "a:b")
        assert await list_sessions(place, "a") == ["b.c", "b:c"]


async def test_bi_089_test_memories_share_nothing() -> None:
    """Every test-mode memory has a filesystem of its own, and none is the process's `memory://`."""
    memories = [SessionMemory.test_mode() for _ in range(2)]
    memories[0].add("messages", "mine")
    await memories[0].save()
    assert await list_sessions(memories[0].fs) == ["test"]
    assert await list_sessions(memories[1].fs) == await list_sessions("memory://") == []
