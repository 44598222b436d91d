"""The meaning of filters on metadata, case by case."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

METADATA: dict[str, dict[str, Any]] = {
    "full": {"source": "a.pdf", "year": 2021, "draft": False, "tags": ["x", "y"], "note": None},
    "other": {"source": "b.pdf", "year": 2023.5, "draft": True, "tags": []},
    "text": {"source": "a.pdf'; --", "year": "2021", "tags": "x"},
    "bare": {},
}
# A filter, and the names of those above that it lets through.
FILTERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "full other text bare"),
    ({"source": "a.pdf"}, "full"),
    ({"source": {"$eq": "b.pdf"}}, "other"),
    ({"source": {"$ne": "a.pdf"}}, "other text bare"),
    ({"source": {"$in": ["a.pdf", "b.pdf", "c.pdf"]}}, "full other"),
    ({"source": {"$in": []}}, ""),
    ({"source": "a.pdf'; --"}, "text"),
    ({"source": "A.PDF"}, ""),
    ({"source": "%"}, ""),
    ({"year": 2021}, "full"),
    ({"year": 2021.0}, "full"),
    ({"year": "2021"}, "text"),
    ({"year": {"$gte": 2021, "$lt": 2023.5}}, "full"),
    ({"year": {"$gt": 2021}}, "other"),
    ({"year": {"$lte": 3000}}, "full other"),
    ({"year": {"$gte": "2020"}}, "text"),
    ({"draft": True}, "other"),
    ({"draft": 1}, ""),
    ({"draft": {"$gt": 0}}, ""),
    ({"note": None}, "full"),
    ({"note": {"$exists": True}}, "full"),
    ({"note": {"$exists": False}}, "other text bare"),
    ({"tags": "x"}, "full text"),
    ({"tags": {"$in": ["y", "z"]}}, "full"),
    ({"tags": ["x", "y"]}, "full"),
    ({"tags": ["y", "x"]}, ""),
    ({"tags": []}, "other"),
    ({"tags": {"$ne": "x"}}, "other bare"),
    ({"$or": [{"year": 2021}, {"draft": True}]}, "full other"),
    ({"$or": []}, ""),
    ({"$and": [{"source": "a.pdf"}, {"draft": True}]}, ""),
    ({"$not": {"source": "a.pdf"}}, "other text bare"),
    ({"$not": {"$or": [{"draft": True}, {"year": {"$exists": False}}]}, "tags": "x"}, "full text"),
)

metadata = st.dictionaries(st.sampled_from(["k", "k", "j"]), st.sampled_from(["a", "b", 1, 2, True, None, ["a", "b"]]))
_conditions = st.one_of(
    st.sampled_from(["a", "b", 1, True, None]),
    st.fixed_dictionaries({"$ne": st.sampled_from(["a", 1])}),
    st.fixed_dictionaries({"$in": st.lists(st.sampled_from(["a", 2]), max_size=2)}),
    st.fixed_dictionaries({"$gte": st.sampled_from(["b", 2])}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
filters = st.recursive(
    st.dictionaries(st.sampled_from(["k", "j"]), _conditions, max_size=2),
    lambda inner: (
        st.fixed_dictionaries({"$not": inner}) | st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=3,
)
