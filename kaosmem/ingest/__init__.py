"""Files on any fsspec filesystem as passages, each with an id, its source and its place in that.

`find_files` lists the files of a place. `changes` says which of them must be read. `read_passages`
reads those.
"""

from kaosmem.ingest.files import Skipped, SourceFile
from kaosmem.ingest.listing import Choice, corpus_label, find_files, nothing_to_ingest
from kaosmem.ingest.passages import Changes, IngestReport, Passage, Reading, changes, read_passages
from kaosmem.ingest.patterns import check_patterns

__all__ = [
    "Changes",
    "Choice",
    "IngestReport",
    "Passage",
    "Reading",
    "Skipped",
    "SourceFile",
    "changes",
    "check_patterns",
    "corpus_label",
    "find_files",
    "nothing_to_ingest",
    "read_passages",
]
