"""A knowledge graph: entities in the question bring their relations, even without a common word."""

from __future__ import annotations

from pathlib import Path

from kaosmem import SessionMemory

COMPANIES = [
    {
        "id": "acme",
        "name": "Acme Corp",
        "type": "company",
        "description": "makes bridges",
        "aliases": ["Acme"],
    },
    {"id": "beta", "name": "Beta Bolts", "type": "company"},
    {"id": "lyon", "name": "Lyon", "type": "city", "description": "its docks are closed in August"},
]
DEALS = [
    {
        "source": "beta",
        "target": "acme",
        "type": "supplies",
        "description": "bolts",
        "properties": {"valid_from": "2019-03-01"},
    },
    {"source": "beta", "target": "lyon", "type": "ships from"},
]


def add_other_companies(memory: SessionMemory, count: int) -> None:
    memory.graph.add(
        [{"id": f"c{n}", "name": f"Company {n}", "type": "company"} for n in range(count)],
        [{"source": f"c{n}", "target": f"c{n + 1}", "type": "supplies"} for n in range(count - 1)],
    )


async def test_a_question_brings_what_its_names_are_related_to(tmp_path: Path) -> None:
    async with SessionMemory.open(str(tmp_path), "suppliers") as memory:
        memory.graph.add(COMPANIES, DEALS)
        add_other_companies(memory, 200)
        memory.add("messages", "What could delay Acme's bridges this summer?")
        context = await memory.assemble_context(budget=120)

    print(context.text)
    assert "Acme Corp (company), also Acme: makes bridges" in context.text
    assert "Beta Bolts -[supplies]-> Acme Corp (since 1 March 2019): bolts" in context.text
    # Two steps from what the question names.
    assert "Lyon (city): its docks are closed in August" in context.text
    assert context.used <= 120

    async with SessionMemory.open(str(tmp_path), "suppliers") as memory:  # it is still there
        assert [entity.name for entity in memory.graph.neighbors("beta").entities] == [
            "Beta Bolts",
            "Acme Corp",
            "Lyon",
        ]
        # Again: the lines that name it follow.
        memory.graph.add([{"id": "beta", "name": "Beta Bolts Ltd"}])
        assert "Beta Bolts Ltd -[ships from]-> Lyon" in [item.content for item in memory["graph"]]
