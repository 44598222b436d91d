"""`kaosmem ingest`: files into a corpus that sessions share."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from kaosmem.cli.report import ingest_summary
from kaosmem.cli.terminal import Phases, write, write_json
from kaosmem.corpora.corpus import Corpus
from kaosmem.corpora.ingestion import ingest_files
from kaosmem.corpora.lance import LanceCorpus
from kaosmem.corpora.postgres import PgCorpus
from kaosmem.display import visible
from kaosmem.ingest.listing import Choice
from kaosmem.ingest.passages import IngestReport
from kaosmem.ingest.patterns import Patterns

Globs = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Repeatable.", show_default=False)
]


def ingest(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or folder, or its URL.")],
    corpus: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The corpus: a folder, s3://bucket/prefix or postgresql://host/database.",
        ),
    ],
    tenant: Annotated[str, typer.Option(help="The tenant whose passages they are.")] = "default",
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="The number of processes.", show_default="one a processor"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Ray cluster that reads.", show_default=False),
    ] = None,
    include: Globs = None,
    exclude: Globs = None,
    gitignore: Annotated[bool, typer.Option(help="Skip files that a .gitignore names.")] = True,
    all_skipped: Annotated[bool, typer.Option(help="Print every skipped file.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON for a program.")
    ] = False,
) -> None:
    """Read new and changed files of PATH into a corpus, and remove the sources whose files are gone.

    It may be stopped at any time: another run goes on where this one was. The settings of S3 come
    from the environment.
    """
    choice = Choice(Patterns(include or ()), Patterns(exclude or ()), gitignore)

    async def run() -> IngestReport:
        place: Corpus
        if corpus.startswith(("postgresql://", "postgres://")):
            place = PgCorpus(corpus, tenant=tenant)
        else:
            place = LanceCorpus(corpus, tenant=tenant)
        with Phases() as phases:
            phases.begin("reading files")
            return await ingest_files(
                path, place, choice=choice, workers=workers, ray=ray, progress=phases.show
            )

    report = asyncio.run(run())
    if as_json:
        counts = {
            name: len(getattr(report, name)) for name in ("new", "changed", "unchanged", "vanished")
        }
        skipped = {each.source: each.why for each in report.skipped}
        passages = {"added": report.items_added, "removed": report.items_removed}
        write_json({"files": {**counts, "skipped": skipped}, "passages": passages})
        return
    for line in ingest_summary(report, all_skipped=all_skipped):
        write(visible(line) + "\n")
