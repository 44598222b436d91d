"""Credentials in URLs and filesystems stay out of errors, notices and reprs."""

import pickle

import pytest

from kaosmem import DurabilityError, SessionMemory, delete_session, list_sessions
from kaosmem.persistence.log import SessionLog
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.persistence.storage.places import open_storage
from tests.telling import CONTENT, SECRET, URLS, refusal, told


@pytest.mark.parametrize("url", URLS)
async def test_credentials_in_a_url_are_not_shown(url):
    """Where no session can be kept or read, the error shows a URL without user, password, query and fragment."""
    place = url.format(SECRET, SECRET)

    async def opened():
        async with SessionMemory.open(place, "s") as memory:
            memory.add("messages", "x")
            await memory.ingest(place)

    acts = [
        opened,
        lambda: list_sessions(place),
        lambda: delete_session(place, "s"),
        lambda: SessionMemory.test_mode(counter="estimate").ingest(place),
    ]
    for act in acts:
        assert SECRET not in told(await refusal(act))


class Failing(IsolatedMemoryFileSystem):
    """A filesystem that was given a secret and stores nothing."""

    def pipe_file(self, path, value, **options):
        raise OSError(5, "no space for it")


async def test_credentials_in_a_filesystem_are_not_shown():
    """What a filesystem was made with is in no error, notice, repr or pickle of a session that is kept there."""
    filesystem = Failing(key="user", secret=SECRET, client_kwargs={"token": SECRET})
    shown = []
    with pytest.raises(DurabilityError) as caught:
        async with SessionMemory.open(filesystem, "s", counter="estimate") as memory:
            memory.add("messages", CONTENT)
            acts = [
                memory.save,
                lambda: memory.ingest(filesystem, "findings"),
                lambda: memory.fetch("nothing"),
                lambda: pickle.dumps(memory),
                lambda: pickle.dumps(SessionLog.open(filesystem, "s")[0]),
            ]
            shown += [told(await refusal(act)) for act in acts]
            log = SessionLog.open(filesystem, "s")
            held = [
                memory,
                vars(memory),
                log,
                vars(log[0]),
                open_storage(filesystem, "default", "s"),
            ]
            shown += [*map(repr, held), *memory.notices]
    for each in (*shown, told(caught.value)):
        assert SECRET not in each
        assert CONTENT not in each
