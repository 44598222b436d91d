"""Words that say that a text corrects an earlier one, such as "make that 40" or "correction:"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType

CORRECTION_CUES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "en": (
            r"\bcorrection(?: to (?:that|this|my \w+))?:",
            r"\bmake (?:that|it) (?=\W?\d)|\b(?:scratch|strike|disregard) that\b|\bchange of plans?\b",
            r"\b(?:sorry|no|oops|wait|actually),? i meant\b|\bi (?:misspoke|stand corrected)\b|\bon second thoughts?\b",
        ),
        "de": (
            r"\b(?:korrektur|berichtigung):|\bplanänderung\b|\bich habe mich (?:vertan|versprochen)\b",
            r"\b(?:nein|sorry|pardon|entschuldigung),? ich meinte\b",
        ),
        "fr": (
            r"\b(?:correction|rectification|rectificatif) ?:|\bchangement de (?:plans?|programme)\b",
            r"\b(?:non|pardon|désolée?),? je voulais dire\b|\bje me suis trompée?\b",
        ),
        "es": (
            r"\b(?:corrección|rectificación):|\bcambio de planes?\b|\bme (?:he equivocado|equivoqué)\b",
            r"\b(?:no|perdón|perdona|disculpa),? (?:quise|quería) decir\b",
        ),
        "ru": (r"\b(?:поправка|исправление|уточнение):|\bя (?:оговорился|оговорилась|ошибся|ошиблась)\b",),
        "el": (r"\bδιόρθωση:|\bαλλαγή σχεδίων\b|\b(?:όχι|συγγνώμη),? εννοούσα\b",),
        "ar": (r"(?:تصحيح|تصويب) ?:|تغيرت الخطة|(?:لا|عفوا)،? كنت أقصد",),
        "hi": (r"(?:सुधार|संशोधन) ?:|योजना बदल गई|(?:नहीं|माफ़ करें),? मेरा मतलब",),
    }
)
"""Patterns of corrections by language, as regular expressions that ignore case."""

_PATTERN = re.compile("|".join(f"(?:{cue})" for cue in chain.from_iterable(CORRECTION_CUES.values())), re.IGNORECASE)


def says_it_corrects(text: str) -> bool:
    """Return whether a text says that it corrects an earlier one.

    >>> says_it_corrects("Make that 40,000."), says_it_corrects("Make it two nights in Oslo?")
    (True, False)
    """
    return _PATTERN.search(text) is not None


def without_cues(text: str) -> str:
    """Return a text without the words that say that it corrects."""
    return _PATTERN.sub(" ", text)
