"""Formation: what turns a conversation into lasting knowledge, grounded in its words."""

from kaosmem.formation.changes import AppliedChange, Draft, Former, ProposedChange
from kaosmem.formation.episodes import EpisodeFormer
from kaosmem.formation.llm_former import LLMFormer
from kaosmem.formation.pattern_former import PatternFormer
from kaosmem.formation.schedule import FormsFrom
from kaosmem.formation.shelf import FactShelf

__all__ = [
    "AppliedChange",
    "Draft",
    "EpisodeFormer",
    "FactShelf",
    "Former",
    "FormsFrom",
    "LLMFormer",
    "PatternFormer",
    "ProposedChange",
]
