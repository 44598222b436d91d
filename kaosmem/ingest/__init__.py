"""Files of any kind of text, on any fsspec filesystem, as passages with an id, a source and a range of lines.

`find_files` lists them unopened, `changes` says which are worth reading, `read_passages` reads those.
"""

from kaosmem.ingest.files import Skipped, SourceFile
from kaosmem.ingest.kinds import Kind
from kaosmem.ingest.listing import corpus_label, find_files
from kaosmem.ingest.passages import Passage, Reading, read_passages
from kaosmem.ingest.report import Changes, IngestReport, changes

__all__ = [
    "Changes",
    "IngestReport",
    "Kind",
    "Passage",
    "Reading",
    "Skipped",
    "SourceFile",
    "changes",
    "corpus_label",
    "find_files",
    "read_passages",
]
