"""A browser for the tests of the page: Debian's Chromium, or the one that KAOSMEM_CHROMIUM names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.conftest import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Without a browser, its tests are not collected: a line at the top of the report says so.
collect_ignore = [] if CHROMIUM else ["test_browser.py"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
