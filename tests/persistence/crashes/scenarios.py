"""Small lives of a session, an act at a time, that take the session log through all that it does to its files."""

from collections.abc import Callable

from kaosmem.persistence.files.records import Change
from tests.persistence.crashes.promises import Session, evict
from tests.persistence.worlds import OPENING, add

Act = Callable[[Session], None]

LONG = "a text of many sectors and pages, " * 1_700
CANARY = "canary-7c1f"


def committing(*changes):
    return lambda session: session.commit(*changes)


def adding(*item_ids, text="text"):
    return committing(*(add(item_id, text) for item_id in item_ids))


def evicting(*item_ids):
    return committing(*map(evict, item_ids))


def snapshotting(*meanwhile):
    """Store the present state late, when other changes are committed already."""
    return lambda session: session.snapshot(*meanwhile)


def tearing(torn, *, sector=0):
    """Leave bytes at the log's end, as a writer that was killed does.

    sector: with NULs to the end of one before.
    """
    return lambda session: session.tear(torn, sector=sector)


def elsewhere(section, item_id, text):
    return Change(section, "add", {"id": item_id, "content": text})


SNAPSHOT = snapshotting()
REOPEN = Session.open
DELETE = Session.delete
INDEX = Session.index

OPENED = committing(OPENING, add("a"))
MIXED = (
    add("b", "one " * 60),
    elsewhere("findings", "c", "two\n" * 40),
    elsewhere("documents", "d", "three " * 80),
)
FORGET = lambda session: session.forget("f", CANARY)  # noqa: E731

SCENARIOS = {
    "torn tail": (
        OPENED,
        adding("b"),
        tearing(b'{"crc":"7c13880a","seq":4,"k":0,"txn":"28'),
        REOPEN,
        adding("c"),
        adding("d"),
    ),
    "torn by NULs": (OPENED, tearing(b'":"half a line"}}\n', sector=512), REOPEN, adding("b")),
    "snapshots": (
        OPENED,
        adding("b"),
        SNAPSHOT,
        adding("c"),
        SNAPSHOT,
        adding("d"),
        SNAPSHOT,
        adding("e"),
        SNAPSHOT,
    ),
    "rolls": (
        OPENED,
        SNAPSHOT,
        adding("b"),
        REOPEN,
        SNAPSHOT,
        adding("c"),
        adding("d"),
        REOPEN,
        SNAPSHOT,
        adding("e"),
    ),
    "late snapshots": (
        *(OPENED, SNAPSHOT, adding("b"), snapshotting(add("c"), evict("a")), adding("d"), REOPEN),
        *(snapshotting(add("e")), adding("f"), REOPEN),
    ),
    "archive": (
        *(
            OPENED,
            adding("b", "c", "d"),
            evicting("a"),
            SNAPSHOT,
            evicting("b", "c"),
            REOPEN,
            SNAPSHOT,
        ),
        *(adding("e"), SNAPSHOT, evicting("d"), SNAPSHOT),
    ),
    "forget": (
        *(
            OPENED,
            adding("f", text=CANARY),
            adding("b"),
            SNAPSHOT,
            evicting("f", "a"),
            SNAPSHOT,
            adding("c"),
        ),
        *(FORGET, adding("d")),
    ),
    "forget a torn tail": (
        OPENED,
        adding("f"),
        tearing(b'{"crc":"7c13880a","d":"' + CANARY.encode()),
        REOPEN,
        FORGET,
    ),
    "indexes": (
        *(
            OPENED,
            adding("b"),
            INDEX,
            adding("c"),
            SNAPSHOT,
            adding("d"),
            INDEX,
            REOPEN,
            evicting("a"),
            SNAPSHOT,
        ),
        *(adding("e"), INDEX),
    ),
    "forget an index": (
        OPENED,
        adding("f", text=CANARY),
        INDEX,
        adding("b"),
        FORGET,
        adding("d"),
        INDEX,
    ),
    "deletion": (
        OPENED,
        adding("b"),
        SNAPSHOT,
        adding("c"),
        DELETE,
        committing(OPENING, add("new")),
        REOPEN,
    ),
}
"""Lives of a session, by what is special about them."""

SHORT = {
    "a commit": (OPENED, adding("b")),
    "a snapshot": (OPENED, evicting("a"), SNAPSHOT),
    "a long text": (OPENED, adding("b", text=LONG)),
    "an index": (OPENED, INDEX, adding("b"), INDEX),
    "forgotten with an index": (OPENED, adding("f", text=CANARY), INDEX, FORGET),
    "forgotten at once": (OPENED, adding("f", text=CANARY), FORGET),
    "forgotten": (OPENED, adding("f", text=CANARY), SNAPSHOT, evicting("f", "a"), SNAPSHOT, FORGET),
}
"""Lives that end with what they are about."""

OVERTAKEN = {
    "a commit": ((OPENED, adding("b")), (adding("x"),), ()),
    "a commit of several sections": ((OPENED,), (committing(*MIXED),), ()),
    "a commit in a new segment": (
        (OPENED, adding("b"), evicting("a"), SNAPSHOT),
        (adding("x"),),
        (),
    ),
    "a commit before a snapshot": ((OPENED, adding("b")), (adding("x"),), (SNAPSHOT,)),
    "an index": ((OPENED, adding("b")), (INDEX, adding("x"), INDEX), (SNAPSHOT, INDEX)),
    "a snapshot": (
        (OPENED, adding("b", "c"), evicting("a"), SNAPSHOT, adding("d"), SNAPSHOT, evicting("b")),
        (SNAPSHOT,),
        (),
    ),
    "a snapshot and a commit": ((OPENED, adding("b")), (SNAPSHOT, adding("x")), (SNAPSHOT,)),
    "forgetting": (
        (OPENED, adding("f", text=CANARY), SNAPSHOT, evicting("a"), SNAPSHOT, adding("b")),
        (FORGET,),
        (),
    ),
    "forgetting in a new segment": (
        (OPENED, adding("f", text=CANARY)),
        (SNAPSHOT, adding("x"), FORGET),
        (),
    ),
}
"""What one handle did that stays open, another until it was killed, and the first then, before it commits again."""

FORGOTTEN = {
    "a commit": (OPENED, adding("f", text=CANARY)),
    "a snapshot": (OPENED, adding("f", text=CANARY), SNAPSHOT),
    "an archive": (OPENED, adding("f", text=CANARY), evicting("f"), SNAPSHOT),
    "an index": (OPENED, adding("f", text=CANARY), INDEX),
    "forgetting": (OPENED, adding("f", text=CANARY), FORGET),
    "forgetting an index": (OPENED, adding("f", text=CANARY), INDEX, FORGET),
}
"""What a handle did until it was killed, while what is to be forgotten was in memory."""
