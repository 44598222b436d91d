"""Credentials, keys and content where they do not belong."""

from __future__ import annotations

import logging
import os
import pickle
import stat
from pathlib import Path

import pytest

from kaosmem.persistence.objects import IsolatedMemoryFileSystem
from tests.bad_inputs.stored import folder_of, memory_at
from tests.persistence.worlds import snapshot, started

KEY = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"


async def test_bi_119_121_neither_options_nor_items_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With logging at DEBUG a session with a key in an item, on a filesystem with a token, logs neither."""
    filesystem = IsolatedMemoryFileSystem(token=KEY[::-1], client_kwargs={"aws_session_token": KEY[::-1]})
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("fsspec").setLevel(logging.DEBUG)
        async with memory_at(filesystem) as memory:
            memory.add("messages", f"my key is {KEY}", metadata={"key": KEY})
            await memory.save()
            await memory.assemble_context(KEY, budget=100)
        logging.getLogger("fsspec").setLevel(logging.NOTSET)
    assert KEY not in caplog.text
    assert KEY[::-1] not in caplog.text


async def test_bi_120_a_handle_is_no_pickle() -> None:
    """A session is not pickled, so nor are the options of its filesystem."""
    async with memory_at(IsolatedMemoryFileSystem(token=KEY)) as memory:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises((TypeError, pickle.PicklingError, AttributeError)) as caught:
                pickle.dumps(memory, protocol)
            assert KEY not in str(caught.value)


async def test_new_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask, every file is made 0600 and every folder 0700, blobs and what is cut from a tail included."""
    before = os.umask(0)
    try:
        log = started(tmp_path / "root", "a")
        snapshot(log, ["a"], archived=["b"])
        log.close()
        async with memory_at(tmp_path / "root", "t") as memory:
            memory.add("documents", "long text " * 10_000)
            await memory.save()
            segment = max((folder_of(tmp_path / "root", "t") / "log").iterdir())
        with segment.open("ab") as file:
            file.write(b'{"crc":"')
        async with memory_at(tmp_path / "root", "t") as memory:
            memory.add("documents", "more")
    finally:
        os.umask(before)
    made = list((tmp_path / "root").rglob("*"))
    assert {path.parent.name for path in made} >= {"log", "snap", "archive", "blob", "quarantine"}
    for path in [tmp_path / "root", *made]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
