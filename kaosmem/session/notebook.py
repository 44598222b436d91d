"""A session as a notebook shows it."""

from __future__ import annotations

from kaosmem.display import Markup, bar, table
from kaosmem.sections.section import Section
from kaosmem.session.open_session import OpenSession

_SHOWN_SECTIONS = 30
_SHOWN_NOTICES = 10


def session_as_html(session: OpenSession) -> str:
    """Return a table of the sections that hold an item, and the first notices."""
    sections = [each for each in session.sections.values() if len(each) or len(each.archive)]
    rows = [_row(section) for section in sections[:_SHOWN_SECTIONS]]
    return table(
        f"session {session.session_id}: {session.used:,} tokens",
        ("section", "items", "tokens", "archived", "eviction"),
        rows,
        numbers=("items", "archived"),
        left_out=len(sections) - len(rows),
        after=session.notices[:_SHOWN_NOTICES],
    )


def _row(section: Section) -> tuple[str | Markup, ...]:
    return (
        section.spec.name,
        f"{len(section):,}",
        bar(section.used, section.budget),
        f"{len(section.archive):,}",
        section.spec.policy.name,
    )
