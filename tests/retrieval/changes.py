"""Items of a few words, and changes to an index of them."""

from dataclasses import replace

from hypothesis import strategies as st

from benchmarks.corpus import text_item

WORDS = "lease tenant rent landlord deposit notice breach 30 2018 always".split()


def document(text, source, role=""):
    """Return an item of a source, or of none."""
    return replace(text_item(text), role=role, metadata={"source": source} if source else {})


words = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
items = st.builds(
    document,
    words,
    st.sampled_from(["", "", "lease 2018", "tenant.pdf", "notes"]),
    st.sampled_from(["user", "user", "assistant", "Tenant"]),
)
starts = st.dictionaries(st.integers(0, 30), items, max_size=40)
changes = st.lists(st.tuples(st.integers(0, 40), st.none() | items), max_size=20)


def change(index, entries, changes):
    """Make changes to an index and to the entries that it has; None removes an entry."""
    for ordinal, item in changes:
        if item is not None:
            if ordinal in entries:
                index.update(ordinal, item)
            else:
                index.add([(ordinal, item)])
            entries[ordinal] = item
        elif entries.pop(ordinal, None) is not None:
            index.remove(ordinal)
