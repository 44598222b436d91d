"""`kaosmem ingest`: files into a corpus that sessions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kaosmem.cli.options import AllSkipped, Exclude, Gitignore, Include
from kaosmem.cli.report import ingest_summary
from kaosmem.cli.terminal import ProgressLine, write
from kaosmem.display import visible

if TYPE_CHECKING:
    from kaosmem.corpora.corpus import Corpus


async def ingest(
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
        typer.Option(
            metavar="N", min=0, help="The number of processes.", show_default="one a processor"
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Ray cluster that reads.", show_default=False),
    ] = None,
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = True,
    all_skipped: AllSkipped = False,
) -> None:
    """Read new and changed files of PATH into a corpus, and remove the sources whose files are gone.

    It may be stopped at any time: another run goes on where this one was. The settings of S3 come
    from the environment.

    A program asks the corpus: await memory.attach(CorpusSource(LanceCorpus(URL))), or PgCorpus(URL)
    for PostgreSQL. Then memory.assemble_context(question, budget=N) shows its passages.
    """
    from kaosmem.corpora.ingestion import ingest_files
    from kaosmem.ingest.listing import FileSelection
    from kaosmem.ingest.patterns import Patterns

    choice = FileSelection(Patterns(include or ()), Patterns(exclude or ()), gitignore)
    with ProgressLine() as progress_line:
        progress_line.begin("reading files")
        report = await ingest_files(
            path,
            _corpus_at(corpus, tenant),
            choice=choice,
            workers=workers,
            ray=ray,
            progress=progress_line.show,
        )
    for line in ingest_summary(report, all_skipped=all_skipped):
        write(visible(line) + "\n")


def _corpus_at(url: str, tenant: str) -> Corpus:
    from kaosmem.corpora.lance import LanceCorpus
    from kaosmem.corpora.postgres import PgCorpus

    kind = PgCorpus if url.startswith(("postgresql://", "postgres://")) else LanceCorpus
    return kind(url, tenant=tenant)
