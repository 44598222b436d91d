"""Sections: what one is like, holds, has given up, proposes; and other sources of what is shown."""

from kaosmem.sections.archive import Archive, Archived
from kaosmem.sections.proposals import Candidate, Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.sources import AttachedSection, Source, renamed
from kaosmem.sections.spec import DEFAULT_SECTIONS, SectionSpec, check_specs

__all__ = [
    "DEFAULT_SECTIONS",
    "Archive",
    "Archived",
    "AttachedSection",
    "Candidate",
    "Proposal",
    "Section",
    "SectionSpec",
    "Source",
    "check_specs",
    "renamed",
]
