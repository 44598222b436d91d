"""`kaosmem ingest`: files into a corpus that sessions share."""

from __future__ import annotations

from kaosmem.cli.report import ingest_summary
from kaosmem.cli.terminal import Phases, write, write_json
from kaosmem.corpora.corpus import Corpus
from kaosmem.corpora.ingestion import ingest_files
from kaosmem.corpora.lance import LanceCorpus
from kaosmem.corpora.postgres import PgCorpus
from kaosmem.display import visible
from kaosmem.ingest.listing import Choice
from kaosmem.ingest.passages import IngestReport


async def ingest_path(
    path: str,
    url: str,
    tenant: str,
    *,
    choice: Choice,
    workers: int | None,
    ray: str | None,
) -> IngestReport:
    """Read the new and changed files of a path into the corpus at a URL, and report on them."""
    corpus: Corpus
    if url.startswith(("postgresql://", "postgres://")):
        corpus = PgCorpus(url, tenant=tenant)
    else:
        corpus = LanceCorpus(url, tenant=tenant)
    with Phases() as phases:
        phases.begin("reading files")
        return await ingest_files(
            path, corpus, choice=choice, workers=workers, ray=ray, progress=phases.show
        )


def print_ingested(
    report: IngestReport,
    *,
    all_skipped: bool,
    as_json: bool,
) -> None:
    """Print the counts of files and passages."""
    if not as_json:
        for line in ingest_summary(report, all_skipped=all_skipped):
            write(visible(line) + "\n")
        return
    counts = {
        name: len(getattr(report, name)) for name in ("new", "changed", "unchanged", "vanished")
    }
    skipped = {each.source: each.why for each in report.skipped}
    passages = {"added": report.items_added, "removed": report.items_removed}
    write_json({"files": {**counts, "skipped": skipped}, "passages": passages})
