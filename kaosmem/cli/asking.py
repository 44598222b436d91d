"""`kaosmem assemble`: the context for a question about files or a stored session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import typer

from kaosmem.arguments import check_share, check_text
from kaosmem.assembly.offers import check_budget
from kaosmem.cli.options import (
    LINEAR,
    TEXT,
    AllSkipped,
    AsJson,
    Counter,
    Exclude,
    Format,
    Gitignore,
    Include,
    Namespace,
    RankerName,
    whole_number,
)
from kaosmem.cli.report import context_json, print_context, print_notes
from kaosmem.cli.sessions import open_stored, split_url
from kaosmem.cli.terminal import ProgressLine, write_json
from kaosmem.errors import ConflictError
from kaosmem.ingest.passages import IngestReport
from kaosmem.names import check_name
from kaosmem.retrieval.ranker import Ranker
from kaosmem.retrieval.rankers import RANKERS
from kaosmem.sections.default_sections import DEFAULT_SECTIONS
from kaosmem.session.directory import list_sessions
from kaosmem.session.memory import SessionMemory


async def assemble(
    query: Annotated[
        str,
        typer.Option(
            "--query", "-q", help="The question that ranks the passages.", show_default=False
        ),
    ],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="A file or folder, or its URL. Leave it out to ask a stored --session.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            "--budget", "-b", metavar="TOKENS", help="The maximum number of tokens in the context."
        ),
    ] = "4000",
    session: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Keep the passages in this session, or ask it without a PATH: <root>/<session id>.",
            show_default=False,
        ),
    ] = None,
    namespace: Namespace = "default",
    format: Format = TEXT,
    counter: Counter = "o200k_base",
    ranker: Annotated[
        RankerName,
        typer.Option(help="The ranker; dense also compares meaning and needs the extra dense."),
    ] = LINEAR,
    min_confidence: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Show no passage if the confidence is lower than this, 0 to 1."
        ),
    ] = 0.0,
    include: Include = None,
    exclude: Exclude = None,
    gitignore: Gitignore = True,
    full: Annotated[
        bool, typer.Option("--full", help="Print whole passages on a terminal.")
    ] = False,
    all_skipped: AllSkipped = False,
    as_json: AsJson = False,
) -> None:
    r"""Read files and print the context for a question within a budget.

    A terminal gets a summary with the reason for each passage, then the passages by rank,
    shortened. A pipe gets the exact context, and the sums go to stderr. In it, a passage begins
    with its label: the file and lines, such as [tasks.py:436-471], or below another passage of the
    file only the lines, [:473-504]. A backslash before a line that looks like a label or a heading,
    such as \[x], says that it belongs to the passage.

    Reads text in any form: prose, source code, HTML, tables, notebooks and e-mail, but no compressed file.
    PDF, Word, PowerPoint and Excel need the extra docs. Counts the files that it skips, by reason.
    With --session, the next question reads only changed files. Without PATH, it asks the stored
    session and changes nothing.
    """
    if path is None and session is None:
        raise typer.BadParameter(
            "give a file or folder, or a stored session with --session", param_hint="PATH"
        )
    tokens = check_budget(whole_number(budget))
    check_text(query, "query")
    check_share(min_confidence, "min_confidence")
    report = None
    with ProgressLine() as progress_line:
        progress_line.begin("opening the session")
        opening = open_stored if path is None else _open_corpus
        async with opening(session, namespace, counter, RANKERS[ranker]()) as memory:
            if path is not None:
                while report is None:
                    progress_line.begin("reading files")
                    report = await memory.ingest(
                        path,
                        include=include or (),
                        exclude=exclude or (),
                        gitignore=gitignore,
                        progress=progress_line.show,
                    )
                    if session is not None:
                        progress_line.begin("saving")
                        report = await _saved(memory, report)
            progress_line.begin("indexing items")
            await memory.admin.prepare(progress=partial(progress_line.show, ""))
            progress_line.begin("ranking and packing")
            context = await memory.assemble_context(
                query, budget=tokens, format=format.value, min_confidence=min_confidence
            )
            progress_line.begin("closing")
    print_notes(memory, report, all_skipped=all_skipped)
    if as_json:
        write_json(context_json(context))
    else:
        print_context(context, full=full)


async def _saved(memory: SessionMemory, report: IngestReport) -> IngestReport | None:
    """Save what was read, or drop it if another process has read some of the files meanwhile."""
    try:
        await memory.save()
    except ConflictError:
        await memory.admin.refresh(discard=True)
        return None
    return report


@asynccontextmanager
async def _open_corpus(
    url: str | None,
    namespace: str,
    counter: str,
    ranker: Ranker,
) -> AsyncIterator[SessionMemory]:
    """Open the session at `url` for writing, new or stored.

    None is a memory that is gone afterwards.
    """
    # The question chooses among a few passages too. The newest of an agent's documents may matter
    # most, but the newest of a folder's do not.
    sections = DEFAULT_SECTIONS.replace(documents={"retrieval_threshold": 0})
    if url is None:
        yield SessionMemory.test_mode(sections=sections, counter=counter, ranker=ranker)
        return
    root, session_id = split_url(url)
    check_name(session_id, "session id")
    is_stored = session_id in await list_sessions(root, namespace)
    async with SessionMemory.open(
        root,
        session_id,
        namespace=namespace,
        sections=None if is_stored else sections,
        counter=counter,
        ranker=ranker,
    ) as memory:
        yield memory
