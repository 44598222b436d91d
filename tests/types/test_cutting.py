"""Long texts are cut in the middle, and keep the lines there that tell of a failure."""

from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory, ToolResultBlock, ToolUseBlock
from kaosmem.types.cutting import cut_text

STEPS = "".join(f"step {number}: compiled without a word\n" for number in range(600))
FAILURES = (
    "FAILED tests/test_cart.py::test_discount - assert 3 == 4",
    "reactor.c:88: error: undefined reference to frobnicate",
    "ZeroDivisionError: division by zero",
)


def test_lines_of_the_middle_that_tell_of_a_failure_stay():
    """They stand between the beginning and the end, in their order."""
    log = STEPS + "".join(f"{line}\n{STEPS}" for line in FAILURES)
    shown = cut_text(log, 2_000, "item a")
    places = [shown.index(line) for line in ("step 0:", "item a is the whole", *FAILURES)]
    assert places == sorted(places)
    assert log.endswith(shown[-600:])
    assert len(shown) < 2_100


def test_many_lines_with_such_words_tell_nothing():
    """Source code names errors in many lines: its beginning stays in one piece."""
    code = "".join(
        f"    raise ValueError('no room {number}')\n    left -= 1\n" for number in range(600)
    )
    shown = cut_text(code, 2_000, "")
    assert shown.startswith(code[:1_300])


@given(
    st.lists(
        st.sampled_from([*FAILURES, "step", "", "a longer step of the program"]), max_size=200
    ),
    st.integers(0, 900),
)
def test_a_cut_text_is_within_its_limit_and_is_not_cut_again(lines, most):
    """The note comes on top. Every line that is shown is one of the text."""
    text = "\n".join(lines)
    shown = cut_text(text, most, "item a")
    assert len(shown) <= max(most + 80, len(text) if len(text) <= most + 80 else 0)
    assert cut_text(shown, most, "item a") == shown


async def test_a_log_that_is_larger_than_its_section_shows_its_failure():
    """The copy that stands for it has the line, and a question finds it."""
    memory = SessionMemory.test_mode()
    memory.add("messages", "Build the program.")
    memory.add("messages", [ToolUseBlock("c1", "make")], role="assistant")
    log = STEPS * 8 + f"{FAILURES[1]}\n" + STEPS * 8
    memory.add("messages", [ToolResultBlock("c1", log)], role="tool")
    context = await memory.assemble_context(budget=16_000)
    assert FAILURES[1] in context.text
