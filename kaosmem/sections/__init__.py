"""Sections: specs, items, archive and proposals; and the Source protocol."""

from kaosmem.sections.proposal import Candidate, ForgettingSource, NamedSource

__all__ = ["Candidate", "ForgettingSource", "NamedSource"]
