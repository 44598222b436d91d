"""Texts and JSON values for Hypothesis, and a change of all that a value holds."""

from dataclasses import fields, is_dataclass

from hypothesis import strategies as st

from kaosmem import ChatMessage
from kaosmem.testing.contracts.store import TEXTS

texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([0.1, -0.0, 1e300])
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def spoil(value):
    """Change all that is in lists, mappings and buffers of a value. A message never changes."""
    inner = ()
    if isinstance(value, dict):
        inner = [*value.values()]
        value.update(dict.fromkeys(value, "spoiled"))
    elif isinstance(value, list | tuple):
        inner = [*value]
    elif is_dataclass(value) and not isinstance(value, ChatMessage):
        inner = [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, list):
        value.append("spoiled")
    elif isinstance(value, bytearray):
        value.append(0)
    for each in inner:
        spoil(each)
