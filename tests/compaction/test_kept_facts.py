"""The lists of facts that a summary keeps to the letter."""

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ChatMessage, ToolResultBlock, get_counter
from kaosmem.compaction.facts import facts_in
from kaosmem.compaction.kept_facts import KeptFacts

COUNT = get_counter()
_SLACK = 4  # tokens of separators, and of one heading
names = st.text("bcdfgklmnprst", min_size=3, max_size=9)
paths = st.lists(names, min_size=2, max_size=5).map(lambda parts: f"/srv/{'/'.join(parts)}.py")
texts = st.builds(
    lambda path, number, name: (
        f"It is in {path} with {number} lines, and parse_{name} reads it at noon."
    ),
    paths,
    st.integers(10, 10**6),
    names,
)


def _message(role, text):
    if role == "summary":
        return ChatMessage(
            role,
            f"They worked.\n\nKept verbatim:\n{'; '.join(fact.shown for fact in facts_in(text))}",
        )
    return ChatMessage(role, (ToolResultBlock("c", text),) if role == "tool" else text)


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "tool", "summary"]), texts),
        min_size=1,
        max_size=30,
    ),
    st.integers(0, 600),
)
def test_no_path_is_lost_while_there_is_room_for_it(said, room):
    """Whoever named it, in whatever summary. The lists take no more than their room."""
    listed = KeptFacts([_message(role, text) for role, text in said], counter=COUNT).listed(
        "They worked.", room
    )
    assert not listed or COUNT(listed) <= room
    for _, text in said:
        for fact in facts_in(text):
            headings = 12  # of lists that stay empty
            assert (
                fact.text in listed
                or COUNT(f" {fact.shown};") > room - COUNT(listed) - headings - _SLACK
            )
