"""Sections: specs, items, archive and proposals; and the Source protocol."""

from kaosmem.sections.archive import Archive, Archived, parse_time
from kaosmem.sections.holdings import Moment
from kaosmem.sections.lazy_index import IndexDump, StoredIndex
from kaosmem.sections.past import EvictedItem, read_evicted
from kaosmem.sections.proposal import (
    Candidate,
    ForgettingSource,
    Hit,
    NamedSource,
    Proposal,
    Source,
    Stock,
)
from kaosmem.sections.section import Section
from kaosmem.sections.spec import (
    DEFAULT_SECTIONS,
    MAX_SECTIONS,
    SectionSpec,
    SectionSpecs,
    check_specs,
    renamed,
)
from kaosmem.sections.substitution import (
    Forgotten,
    Replaced,
    Substitution,
    compacted_in,
    derived_from,
    message_of,
    substitution,
)

__all__ = [
    "DEFAULT_SECTIONS",
    "MAX_SECTIONS",
    "Archive",
    "Archived",
    "Candidate",
    "EvictedItem",
    "ForgettingSource",
    "Forgotten",
    "Hit",
    "IndexDump",
    "Moment",
    "NamedSource",
    "Proposal",
    "Replaced",
    "Section",
    "SectionSpec",
    "SectionSpecs",
    "Source",
    "Stock",
    "StoredIndex",
    "Substitution",
    "check_specs",
    "compacted_in",
    "derived_from",
    "message_of",
    "parse_time",
    "read_evicted",
    "renamed",
    "substitution",
]
