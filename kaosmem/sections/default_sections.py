"""The sections that a session has by default, and how to change one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kaosmem.errors import NotFoundError
from kaosmem.names import name_hint, shown
from kaosmem.retrieval.rankers import GraphRanker
from kaosmem.sections.spec import SectionSpec


class SectionSpecs(tuple[SectionSpec, ...]):
    """Specs of a session's sections, in order of declaration."""

    __slots__ = ()

    def __repr__(self) -> str:
        # the fields take pages of help()
        return f"SectionSpecs({', '.join(spec.name for spec in self)})"

    def replace(self, **changes: Mapping[str, object]) -> SectionSpecs:
        """Return these specs with some fields of some of them changed, by name.

        Raises NotFoundError for a name that no spec has, TypeError for a field that no spec has, and
        as SectionSpec.

        >>> from kaosmem import DEFAULT_SECTIONS, SessionMemory
        >>> sections = DEFAULT_SECTIONS.replace(role={"budget": 64_000}, findings={"eviction": "refuse"})
        >>> memory = SessionMemory.test_mode(sections=sections)
        >>> memory["role"].budget
        64000
        """
        names = [spec.name for spec in self]
        for name in changes:
            if name not in names:
                raise NotFoundError(
                    f"no section {shown(name)} to replace; {name_hint(name, names)}"
                )
        changed: list[SectionSpec] = []
        for spec in self:
            fields: Mapping[str, Any] = changes.get(spec.name, {})
            changed.append(replace(spec, **fields))
        return SectionSpecs(changed)


DEFAULT_SECTIONS = SectionSpecs(
    (
        SectionSpec(
            "role",
            32_000,
            100,
            placement="static",
            eviction="none",
            header="",
        ),
        SectionSpec("playbooks", 8_000, 80, placement="static", eviction="none"),
        SectionSpec("plan_examples", 8_000, 30, placement="static", eviction="none"),
        SectionSpec(
            "messages",
            32_000,
            90,
            0.35,
            placement="history",
            recent=4,
            recall=0.25,
            dates="created_at",
        ),
        SectionSpec("last_intent", 2_000, 85, recall=0.0, max_items=1),
        SectionSpec("findings", 16_000, 70, 0.10, eviction="priority"),
        SectionSpec("lessons", 16_000, 60),
        SectionSpec("documents", None, 50, 0.35, eviction="none"),
        SectionSpec("graph", None, 45, eviction="none", ranker=GraphRanker()),
        SectionSpec("actions", 16_000, 40, eviction="lru"),
        SectionSpec("plan_history", 8_000, 35, eviction="lru"),
        SectionSpec("reflection", 8_000, 30),
        SectionSpec("working", 16_000, 75, persistence="none"),
        SectionSpec("planning_context", 16_000, 75, persistence="none"),
        SectionSpec("audit", None, 0, eviction="none", in_context=False),
    )
)
