"""Helpers for tests: checkers of messages and of erasure, a scripted model, state machines and contracts.

State machines and contracts need Hypothesis and pytest, which the extra `test` installs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from kaosmem.errors import MissingExtraError
from kaosmem.testing.erasure import paths_holding
from kaosmem.testing.messages import MessageRuleError, PrefixBinding, check_anthropic_messages, check_openai_messages
from kaosmem.testing.scripted_llm import ScriptedLLM, ScriptExhaustedError

if TYPE_CHECKING:
    from kaosmem.testing.blob_contract import BlobContract
    from kaosmem.testing.compaction_contract import CompactionContract
    from kaosmem.testing.format_contract import FormatContract
    from kaosmem.testing.graph_contract import GraphContract
    from kaosmem.testing.history_contract import HistoryContract
    from kaosmem.testing.long_term_contract import LongTermContract
    from kaosmem.testing.ranker_contract import RankerContract
    from kaosmem.testing.session_log_machine import SessionLogMachine
    from kaosmem.testing.short_term_contract import ShortTermContract
    from kaosmem.testing.storage_machine import StorageMachine
    from kaosmem.testing.store_contract import Clock
    from kaosmem.testing.task_contract import TaskContract
    from kaosmem.testing.tool_conversations import conversations
    from kaosmem.testing.vector_contract import VectorContract

__all__ = [
    "BlobContract",
    "Clock",
    "CompactionContract",
    "FormatContract",
    "GraphContract",
    "HistoryContract",
    "LongTermContract",
    "MessageRuleError",
    "PrefixBinding",
    "RankerContract",
    "ScriptExhaustedError",
    "ScriptedLLM",
    "SessionLogMachine",
    "ShortTermContract",
    "StorageMachine",
    "TaskContract",
    "VectorContract",
    "check_anthropic_messages",
    "check_openai_messages",
    "conversations",
    "paths_holding",
]

_MODULES = {
    "BlobContract": "blob_contract",
    "Clock": "store_contract",
    "CompactionContract": "compaction_contract",
    "FormatContract": "format_contract",
    "GraphContract": "graph_contract",
    "HistoryContract": "history_contract",
    "LongTermContract": "long_term_contract",
    "RankerContract": "ranker_contract",
    "SessionLogMachine": "session_log_machine",
    "ShortTermContract": "short_term_contract",
    "StorageMachine": "storage_machine",
    "TaskContract": "task_contract",
    "VectorContract": "vector_contract",
    "conversations": "tool_conversations",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if _MODULES[name].endswith("_contract"):
            from pytest import register_assert_rewrite

            # So that a failing contract shows the compared values.
            modules = {f"{__name__}.store_contract", f"{__name__}.{_MODULES[name]}"}
            register_assert_rewrite(*(modules - sys.modules.keys()))
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("hypothesis", "pytest", "pytest_asyncio"):
            raise
        raise MissingExtraError(f"{name} needs the extra 'test': pip install 'kaosmem[test]'") from None
