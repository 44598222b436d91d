"""What tests of code that uses kaosmem need: checkers of messages, and state machines for filesystems and the log.

The state machines take Hypothesis, which the extra `test` installs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kaosmem.errors import MissingExtraError
from kaosmem.testing.messages import MessageRuleError, check_anthropic_messages, check_openai_messages

if TYPE_CHECKING:
    from kaosmem.testing.session_log_machine import SessionLogMachine
    from kaosmem.testing.storage_machine import StorageMachine

__all__ = [
    "MessageRuleError",
    "SessionLogMachine",
    "StorageMachine",
    "check_anthropic_messages",
    "check_openai_messages",
]

_MACHINES = {"SessionLogMachine": "session_log_machine", "StorageMachine": "storage_machine"}


def __getattr__(name: str) -> object:
    if name not in _MACHINES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MACHINES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        raise MissingExtraError("a state machine needs the extra 'test': pip install 'kaosmem[test]'") from None
