"""ProfileSource: the keyed facts that a person has stated, as a static section."""

from __future__ import annotations

from dataclasses import replace

from kaosmem.arguments import check_count, check_instance, check_text
from kaosmem.filters import MetadataFilter
from kaosmem.language.duplicates import FORMED
from kaosmem.language.query import Query
from kaosmem.sections.proposal import Candidate, Proposal
from kaosmem.sections.section import Section
from kaosmem.sections.spec import SectionSpec
from kaosmem.sources.store_source import StoreSource
from kaosmem.types.content import Trust
from kaosmem.types.items import Item


class ProfileSource(StoreSource):
    """The current values of the keyed facts that were formed from a person's own words.

    The profile stands in the system message, each fact with its label, and does not depend on the
    question. It changes only with its facts. A window appends a new fact, and is packed anew for a
    fact that is replaced or retired. Disputed facts, rules and facts without a key are left out. If the budget is too
    small for all, the newest facts are shown.

    Args:
        section: The section that is formed.
        person: The role of the person's messages.
        budget: Tokens of the facts, as the session counts them.
        name: The name and the title of the section in the context.

    Raises:
        InvalidArgumentError: If an argument is not valid.

    >>> from kaosmem import SessionMemory
    >>> from kaosmem.formation import PatternFormer
    >>> memory = SessionMemory.test_mode()
    >>> said = memory.add("messages", "My name is Ann. I live in Oslo.")
    >>> changes = await memory.form(PatternFormer())
    >>> name = await memory.attach(ProfileSource(memory["findings"], "user"))
    >>> print((await memory.assemble_context("Hi", budget=200, sections=[name])).text)
    ## profile
    [user] I live in Oslo.
    [user] My name is Ann.
    <BLANKLINE>
    """

    placement = "static"

    def __init__(
        self,
        section: Section,
        person: str,
        *,
        budget: int = 500,
        name: str = "profile",
    ) -> None:
        spec = SectionSpec(name, None, 95, placement="static", eviction="none", persistence="none")
        super().__init__(spec, trust=Trust.USER)
        self._section = check_instance(section, Section, "section")
        self._person = check_text(person, "person").casefold()
        self._budget = check_count(budget, "budget", least=1)

    async def propose(
        self,
        query: Query,
        *,
        cap: int,
        wanted: MetadataFilter | None = None,
    ) -> Proposal:
        """Return the facts, whatever the query asks for. A view of another time gets none."""
        if query.as_of is not None or query.known_at is not None:
            return Proposal(())
        return Proposal(
            tuple(
                Candidate.alone(item, place, place + 1, None)
                for place, item in enumerate(self._facts())
            )
        )

    async def get(self, item_id: str) -> Item | None:
        """Return a fact of the profile, or None."""
        for item in self._facts():
            if item.id == item_id:
                return item
        return None

    def _facts(self) -> list[Item]:
        """Return the facts that fit the budget, the newest before others, in order of their keys.

        A new version takes the place of the one before, so that nothing else moves.
        """
        chosen = {}
        left = self._budget
        for item in reversed(self._section):
            is_fact = FORMED in item.tags and item.metadata.get("kind") == "semantic"
            if item.key is None or item.role.casefold() != self._person or not is_fact:
                continue
            left -= item.tokens
            if left < 0:
                break
            name = self.spec.name
            chosen[item.key] = replace(item, id=f"{name}/{item.id}", section=name)
        return [chosen[key] for key in sorted(chosen)]
