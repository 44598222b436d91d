"""The command in the process of the tests."""

from functools import cache

import pytest
import typer.main


@pytest.fixture(scope="session", autouse=True)
def _commands_are_built_once():
    """Build the commands once: Typer does it in each call, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield
