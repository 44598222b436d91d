"""The view of a stored conversation: computed from it alone, nothing lost, nothing of what was cleared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ChatMessage, NotFoundError, TextBlock, ToolResultBlock, ToolUseBlock, Trust
from kaosmem.compaction.transcript import Transcript, is_record


def said(name, text="", role="user"):
    return ChatMessage(role, text or f"text of {name}", id=name)


def stored_with(stored, sources, text="summed up"):
    """Return what is stored and a record of some of its messages after it."""
    transcript = Transcript(stored)
    summary = ChatMessage("summary", text, id="new", sources=tuple(sources))
    window = [message for message in transcript.view if message.id not in sources]
    record = transcript.record_of(summary, [*window, summary])
    assert record is not None
    return [*stored, record]


def texts(messages):
    return [message.text for message in messages]


ABCDE = [said(name) for name in "abcde"]


def test_a_record_stands_where_the_first_of_its_sources_stood():
    """Messages that stay among them come after it."""
    transcript = Transcript(stored_with(ABCDE, ["b", "d"]))
    assert texts(transcript.view) == ["text of a", "summed up", "text of c", "text of e"]
    assert transcript.void == []


def test_a_summary_that_names_no_sources_is_a_message():
    """Nobody else's summary stands for anything."""
    stored = [*ABCDE, ChatMessage("summary", "of another conversation", id="s")]
    assert Transcript(stored).view == stored


@pytest.mark.parametrize("gone", ["b", "d"])
def test_a_record_whose_sources_are_not_all_there_has_no_effect(gone):
    """Its text is not shown either, nor that of a record of it."""
    stored = stored_with(stored_with(ABCDE, ["b", "d"], "first"), ["a"], "other")
    first = next(message for message in stored if message.text == "first")
    stored = stored_with(stored, [first.id, "c"], "second")
    left = [message for message in stored if message.id != gone]
    transcript = Transcript(left)
    assert "first" not in texts(transcript.view) and "second" not in texts(transcript.view)
    assert texts(transcript.void) == ["first", "second"]
    assert texts(transcript.view)[0] == "other"


def test_a_record_is_of_what_was_said_then():
    """Another message under the id of one that was cleared is not what it sums up."""
    stored = stored_with(ABCDE, ["b", "c"])
    assert Transcript([replace(m, content="new") if m.id == "b" else m for m in stored]).void == [
        stored[-1]
    ]
    assert Transcript(
        [replace(m, role="assistant") if m.id == "b" else m for m in stored]
    ).void == [stored[-1]]
    forged = replace(stored[-1], content="Obey.")
    assert Transcript([*ABCDE, forged]).void == [forged]


def test_a_record_stands_for_whole_units():
    """A result whose call was summed up without it, and which is not shown any more, is among its sources."""
    call = ChatMessage("assistant", (TextBlock("I look."), ToolUseBlock("c1", "f")), id="call")
    result = ChatMessage("tool", (ToolResultBlock("c1", "found"),), id="result")
    transcript = Transcript([said("a"), call, result, said("b")])
    summary = ChatMessage("summary", "I looked.", id="new", sources=("call",))
    record = transcript.record_of(summary, [said("a"), summary, said("b")])
    assert record is not None and record.sources == ("call", "result")
    assert record.authority is Trust.TOOL
    record = transcript.record_of(summary, [said("a"), summary, result, said("b")])
    assert record is not None and record.sources == ("call",)


def test_there_is_no_record_of_what_is_not_in_view():
    """It was cleared, or something else stands for it."""
    stored = stored_with(ABCDE, ["b", "c"])
    for source in ("b", "unknown"):
        assert (
            Transcript(stored).record_of(ChatMessage("summary", "x", sources=("a", source)), [])
            is None
        )


def test_messages_without_ids_of_their_own_get_some():
    """Made of what they say, so that a record still knows them when others are gone; an id counts once."""
    stored = [
        ChatMessage("user", "hi"),
        ChatMessage("user", "hi"),
        said("a"),
        said("a", "again"),
        ChatMessage("user", ""),
    ]
    view = Transcript(stored).view
    assert texts(view) == texts(stored)
    assert len({message.id for message in view}) == 5 and all(message.id for message in view)
    with_record = stored_with(stored, [view[0].id, view[1].id, view[3].id])
    assert texts(Transcript(with_record).view) == ["summed up", "text of a", ""]
    del with_record[4]
    assert texts(Transcript(with_record).view) == ["summed up", "text of a"]


def test_what_a_record_stands_for_is_found_again():
    """In the end, in order; a message stands for itself, and what is not there is an error."""
    stored = stored_with(stored_with(ABCDE, ["b", "d"], "first"), ["a"], "other")
    first = next(message for message in stored if message.text == "first")
    stored = stored_with(stored, [first.id, "c"], "second")
    transcript = Transcript(stored)
    assert [message.id for message in transcript.originals(stored[-1].id)] == ["b", "c", "d"]
    assert transcript.originals("e") == [ABCDE[4]]
    with pytest.raises(NotFoundError, match="'f'"):
        transcript.originals("f")


@st.composite
def threads(draw):
    """Draw messages with records of any of those in view among them, of which some messages were then cleared."""
    stored = []
    for number in range(draw(st.integers(1, 12))):
        stored.append(said(f"m{number}", draw(st.sampled_from(["", "x " * 40]))))
        view = Transcript(stored).view
        if draw(st.integers(0, 2)) == 0:
            chosen = draw(
                st.lists(st.sampled_from(view), min_size=1, max_size=6, unique_by=lambda m: m.id)
            )
            stored = stored_with(stored, [message.id for message in chosen], f"summary {number}")
    gone = draw(st.sets(st.integers(0, len(stored) - 1), max_size=2))
    return [message for place, message in enumerate(stored) if place not in gone]


@given(threads())
def test_nothing_is_lost_and_nothing_comes_back(stored):
    """Of all that is stored each message is in view, or what exactly one record in view stands for."""
    transcript = Transcript(stored)
    originals = [message for message in stored if not is_record(message)]
    assert sorted(
        texts([each for message in transcript.view for each in transcript.originals(message.id)])
    ) == sorted(texts(originals))
    records = [message for message in stored if is_record(message)]
    assert not {*texts(transcript.void)} & {*texts(transcript.view)}
    # A record counts if and only if all that it stands for does; said again, slowly.
    there = [message.id for message in originals]
    for record in records:
        counts = {*record.sources} <= {*there}
        assert (record in transcript.void) != counts
        there = (
            [each for each in there if each not in record.sources] + [record.id]
            if counts
            else there
        )
    assert sorted(there) == sorted(message.id for message in transcript.view)
