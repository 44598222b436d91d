"""Formation: what turns a conversation into lasting knowledge, grounded in its words."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kaosmem.formation.changes import AppliedChange, Draft, Former, ProposedChange
from kaosmem.formation.schedule import FormsFrom
from kaosmem.formation.shelf import FactShelf

if TYPE_CHECKING:
    from kaosmem.formation.episodes import EpisodeFormer
    from kaosmem.formation.llm_former import LLMFormer
    from kaosmem.formation.pattern_former import PatternFormer
    from kaosmem.formation.procedures import ProcedureFormer

__all__ = [
    "AppliedChange",
    "Draft",
    "EpisodeFormer",
    "FactShelf",
    "Former",
    "FormsFrom",
    "LLMFormer",
    "PatternFormer",
    "ProcedureFormer",
    "ProposedChange",
]

# Each session imports this package, and few of them form anything.
_FORMERS = {
    "EpisodeFormer": "episodes",
    "LLMFormer": "llm_former",
    "PatternFormer": "pattern_former",
    "ProcedureFormer": "procedures",
}


def __getattr__(name: str) -> Any:
    if name not in _FORMERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FORMERS[name]}"), name)
