"""A browser for the tests of the page: Debian's Chromium, or the one that KAOSMEM_CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = os.environ.get("KAOSMEM_CHROMIUM") or shutil.which("chromium") or ""

# Without a browser, its tests are not collected: a report line says so.
collect_ignore = [] if CHROMIUM else ["test_browser.py"]


def pytest_report_header() -> str:
    """Say whether the tests in a browser run."""
    if CHROMIUM:
        return f"page tests: in {CHROMIUM}"
    return (
        "page tests: no Chromium, so tests/view/test_browser.py is left out; install it to run them"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
