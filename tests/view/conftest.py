"""A browser for the tests of the page: Debian's Chromium, or the one that KAOSMEM_CHROMIUM names."""

from typing import TYPE_CHECKING

import pytest

from tests.conftest import CHROMIUM

if TYPE_CHECKING:
    pass

# Without a browser, its tests are not collected: a line at the top of the report says so.
collect_ignore = [] if CHROMIUM else ["test_browser.py"]


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
