"""Helpers for tests: checkers of messages and of erasure, a scripted model, and contracts.

Contracts need Hypothesis and pytest, which the extra `test` installs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from kaosmem.testing.erasure import paths_holding
from kaosmem.testing.messages import (
    MessageRuleError,
    check_anthropic_messages,
    check_openai_messages,
)
from kaosmem.testing.scripted_llm import ScriptedLLM

if TYPE_CHECKING:
    from kaosmem.testing.contracts.blob import BlobContract
    from kaosmem.testing.contracts.compaction import CompactionContract
    from kaosmem.testing.contracts.format import FormatContract
    from kaosmem.testing.contracts.graph import GraphContract
    from kaosmem.testing.contracts.history import HistoryContract
    from kaosmem.testing.contracts.long_term import LongTermContract
    from kaosmem.testing.contracts.ranker import RankerContract
    from kaosmem.testing.contracts.short_term import ShortTermContract
    from kaosmem.testing.contracts.task import TaskContract
    from kaosmem.testing.contracts.vector import VectorContract

__all__ = [
    "BlobContract",
    "CompactionContract",
    "FormatContract",
    "GraphContract",
    "HistoryContract",
    "LongTermContract",
    "MessageRuleError",
    "RankerContract",
    "ScriptedLLM",
    "ShortTermContract",
    "TaskContract",
    "VectorContract",
    "check_anthropic_messages",
    "check_openai_messages",
    "paths_holding",
]

_MODULES = {
    "BlobContract": "blob",
    "CompactionContract": "compaction",
    "FormatContract": "format",
    "GraphContract": "graph",
    "HistoryContract": "history",
    "LongTermContract": "long_term",
    "RankerContract": "ranker",
    "ShortTermContract": "short_term",
    "TaskContract": "task",
    "VectorContract": "vector",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest import register_assert_rewrite

    module = f"{__name__}.contracts.{_MODULES[name]}"
    # So that a failing contract shows the compared values.
    register_assert_rewrite(*({f"{__name__}.contracts.store", module} - sys.modules.keys()))
    return getattr(import_module(module), name)
