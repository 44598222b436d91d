"""Names and ids, and their form on disk."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem.errors import InvalidNameError
from kaosmem.names import check_item_id, check_name, name_hint, name_of, path_of, safe_id, shown

valid_names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._@:+-]{0,127}\Z").filter(
    lambda name: ".." not in name
)


@given(valid_names)
def test_a_valid_name_survives_the_way_to_disk_and_back(name):
    """Names come back from their path, which no filesystem could read as anything but one segment."""
    assert check_name(name, "session") == name
    assert name_of(path_of(name)) == name
    assert path_of(name) == path_of(name).lower()
    assert not re.search(r'[/\\:*?"<>|\s]|\.$', path_of(name))


@given(valid_names, valid_names)
def test_different_names_never_share_a_path(one, other):
    """Paths differ even where case does not count."""
    assert (path_of(one).casefold() == path_of(other).casefold()) == (one == other)


@given(valid_names)
def test_names_that_differ_in_case_are_different(name):
    """Upper and lower case make two names with two paths."""
    assert (path_of(name.upper()) == path_of(name.lower())) == (name.upper() == name.lower())


BAD = [
    *(
        "",
        ".",
        "..",
        "a..b",
        "a/b",
        "../x",
        "a\\b",
        "a\x00b",
        "a\nb",
        " ",
        "a ",
        "-rf",
        ".hidden",
        "é",
        "e\u0301",
    ),
    *(
        "s[1]",
        "s?",
        "~root",
        "x" * 129,
        "s3://b/k",
        "x" * 10_000_000,
        "\ud800",
        None,
        5,
        b"x",
        object(),
    ),
]


@pytest.mark.parametrize("name", BAD, ids=lambda name: shown(name)[:20])
def test_anything_else_is_refused_with_the_remedy(name):
    """The message shows the name, cut short, and says what to do."""
    with pytest.raises(InvalidNameError, match=r"safe_id\(\)") as caught:
        check_name(name, "session")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["deals", "", None, [], "findings" * 1_000_000])
def test_a_name_that_resembles_none_gets_the_list(name):
    """Nothing is guessed of a name that is far from all, or too long to be compared."""
    assert name_hint(name, ["role", "findings"]) == "use one of role, findings"


@pytest.mark.parametrize("text", ["", " ", "\n\t", None])
def test_nobody_gets_the_name_of_all_who_have_none(text):
    """A service whose users may lack a name would give all of them one session."""
    with pytest.raises(InvalidNameError, match="can't be made an id"):
        safe_id(text)


_TEXTS = st.text(max_size=300).filter(str.strip)


@given(_TEXTS)
def test_safe_id_makes_a_valid_name_of_any_text(text):
    """Any text gives a valid name; a valid one is kept."""
    name = safe_id(text)
    assert check_name(name, "id") == name
    assert (safe_id(name) == name) == (name == text)


def test_nobody_can_choose_the_name_that_is_made_of_somebody_elses():
    """A tenant that calls itself as another one's namespace would read all of it."""
    victim = safe_id("Acme Ltd.")
    assert safe_id(victim) != victim
    assert safe_id(safe_id(victim)) not in (victim, safe_id(victim))


@given(_TEXTS, _TEXTS)
def test_safe_id_keeps_different_texts_apart(one, other):
    """Different texts give different names."""
    assert (safe_id(one) == safe_id(other)) == (one == other)


@pytest.mark.parametrize("item_id", ["", "x" * 257, "a\x00", "a\nb", "\x7f", "\ud800", 5, None])
def test_item_ids_without_control_characters_only(item_id):
    """Item ids are text of 1 to 256 characters."""
    with pytest.raises(InvalidNameError, match="item id"):
        check_item_id(item_id)


@pytest.mark.parametrize("item_id", ["a", "docs/a b.md#L1-20", "日本語", "x" * 256])
def test_item_ids_may_be_any_other_text(item_id):
    """Slashes, spaces and any script are fine in item ids."""
    assert check_item_id(item_id) == item_id


@pytest.mark.parametrize("segment", ["%%a", "A", "a..b", "%zz%a", "%1%A", "lock?", ""])
def test_a_foreign_path_segment_is_no_name(segment):
    """What path_of can't have made has no name."""
    assert name_of(segment) is None
