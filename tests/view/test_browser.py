"""The page in headless Chromium: hostile texts, keyboard, themes, a phone's width, axe, and its size."""

import time

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.view.pages import HOSTILE, hostile_file, many_turns, write

TABS = ["window", "sent", "out", "changes", "memory", "session"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return hostile_file(tmp_path_factory.mktemp("page") / "hostile.html")


@pytest.fixture
def opened(browser):
    """Open a page, and check at the end that no script failed and no other host was asked."""
    faults = []
    asked = []
    contexts = []

    def open_page(address, width=1280, height=860, **given):
        context = browser.new_context(viewport={"width": width, "height": height}, **given)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_selector("h1")
        return page

    yield open_page
    assert faults == []
    assert [url for url in asked if not url.startswith("file:")] == []
    for context in contexts:
        context.close()


def test_hostile_texts_run_nothing(opened, hostile):
    """Every view shows the texts as they are: nothing runs, no element and no host is theirs."""
    page = opened(hostile)
    for _ in range(3):
        for tab in TABS:
            page.click(f"#tab-{tab}")
            page.wait_for_selector("#panel > *")
            assert page.evaluate("window.pwned") is None
        page.keyboard.press("Escape")
        page.click("[aria-label='Previous turn']")
    page.click("#tab-window")
    page.click("[role=option] >> nth=1")
    page.wait_for_selector("aside")
    assert page.locator("iframe, img, link, base, a[href], form[action]").count() == 0
    assert page.evaluate("window.pwned") is None
    page.click("#tab-sent")
    assert HOSTILE[3] in page.inner_text(".sent")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_serious(opened, hostile, width, scheme):
    """In each view, light and wide or dark on a phone: no finding, and nothing wider than that."""
    page = opened(hostile, width, color_scheme=scheme)
    for tab in TABS:
        page.click(f"#tab-{tab}")
        if tab == "out":
            page.click("[role=option] >> nth=0")
            page.wait_for_selector("aside")
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["impact"]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if tab == "out":
            page.click("[aria-label='Close the item']")


def test_the_page_works_from_the_keyboard(opened, hostile):
    """Arrows change the turn, digits the view, / the search; the list and the tabs have their keys."""
    page = opened(hostile)
    last = page.inner_text("output >> nth=0")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("output >> nth=0") != last
    page.keyboard.press("3")
    assert page.get_attribute("#tab-out", "aria-selected") == "true"
    page.keyboard.press("1")
    page.keyboard.press("/")
    page.keyboard.type("onerror")
    page.wait_for_selector("[role=option] >> text=onerror")
    page.wait_for_selector("[role=option][aria-posinset='1'] >> text=onerror")
    assert "onerror" in page.inner_text("[role=option] >> nth=0")
    page.keyboard.press("Escape")
    page.focus("[role=listbox]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("aside")
    page.focus("#tab-window")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-sent", "aria-selected") == "true"


def test_long_lists_draw_the_rows_in_sight(opened, tmp_path):
    """Of 3,000 decisions, a list draws some dozens, also after a jump to its end."""
    page = opened(write(many_turns(2, 3_000), tmp_path / "long.html"))
    page.click("#tab-out")
    assert page.locator("[role=option]").count() < 60
    page.focus("[role=listbox]")
    page.keyboard.press("End")
    page.wait_for_selector("[aria-posinset='2980']")
    assert page.locator("[role=option]").count() < 60


@pytest.mark.timed
def test_many_turns_open_in_a_second(opened, tmp_path, capsys):
    """2,000 turns and 100,000 decisions take less than a second more than one turn does."""
    small = write(many_turns(1, 50), tmp_path / "small.html")
    large = write(many_turns(2_000, 50), tmp_path / "large.html")
    times = {small: [], large: []}
    for _ in range(4):
        for address in (small, large):
            started = time.perf_counter()
            page = opened(address)
            times[address].append(time.perf_counter() - started)
    started = time.perf_counter()
    page.click("[aria-label='Previous turn']")
    page.wait_for_selector("text=How do I mend part 1999?")
    turn = time.perf_counter() - started
    size = (tmp_path / "large.html").stat().st_size
    with capsys.disabled():
        print(f"\n{size / 1e6:.1f} MB, 2,000 turns: {min(times[large]):.2f} s", end="")
        print(f", one turn: {min(times[small]):.2f} s; the turn before: {turn:.3f} s")
    assert min(times[large]) - min(times[small]) < 1
