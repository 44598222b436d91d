"""Sections: specs, items, archive and proposals; and the Source protocol."""

from kaosmem.sections.archive import Archive, Archived, check_time
from kaosmem.sections.holdings import Moment
from kaosmem.sections.lazy_index import IndexDump, StoredIndex
from kaosmem.sections.ledger import Ledger
from kaosmem.sections.lineage import Forgotten, derived_from
from kaosmem.sections.past import EvictedItem, read_evicted
from kaosmem.sections.proposal import Candidate, Proposal, Stock
from kaosmem.sections.section import Section
from kaosmem.sections.sources import AttachedSection, ForgettingSource, NamedSource, Source, renamed
from kaosmem.sections.spec import DEFAULT_SECTIONS, MAX_SECTIONS, SectionSpec, SectionSpecs, check_specs
from kaosmem.sections.substitution import Replaced, Substitution, message_of, substitution

__all__ = [
    "DEFAULT_SECTIONS",
    "MAX_SECTIONS",
    "Archive",
    "Archived",
    "AttachedSection",
    "Candidate",
    "EvictedItem",
    "ForgettingSource",
    "Forgotten",
    "IndexDump",
    "Ledger",
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
    "check_time",
    "derived_from",
    "message_of",
    "read_evicted",
    "renamed",
    "substitution",
]
