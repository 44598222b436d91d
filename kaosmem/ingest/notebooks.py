"""Jupyter notebooks: a part for each cell, with its output where that is text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kaosmem.ingest.files import decoded, storable
from kaosmem.ingest.parts import Part
from kaosmem.ingest.pieces import Syntax, cut

_MAX_OUTPUT_CHARS = 2_000
_SYNTAXES = {"markdown": Syntax.MARKDOWN, "raw": Syntax.TEXT}
_LANGUAGES = {"python": Syntax.PYTHON, "javascript": Syntax.BRACES, "scala": Syntax.BRACES, "c++": Syntax.BRACES}


def read_notebook(data: bytes) -> Iterator[Part]:
    """Yield the cells of a notebook that hold something."""
    notebook = json.loads(decoded(data))
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    # Before version 4, the cells were in worksheets, and their code was called input.
    cells = notebook.get("cells") or [cell for sheet in notebook.get("worksheets", ()) for cell in sheet["cells"]]
    for number, cell in enumerate(cells, 1):
        source = storable(_joined(cell.get("source", cell.get("input", ""))))
        syntax = _SYNTAXES.get(cell["cell_type"], _LANGUAGES.get(language, Syntax.CODE))
        metadata = {"cell": number}
        if source:
            yield Part(cut(source, syntax), f"cell{number}", metadata=metadata)
        output = storable("\n".join(_texts(cell.get("outputs", ()))))[:_MAX_OUTPUT_CHARS]
        if output:
            yield Part(cut(output, Syntax.CODE), f"cell{number}-output", metadata=metadata)


def _texts(outputs: Iterable[dict[str, Any]]) -> Iterator[str]:
    for output in outputs:
        if output["output_type"] == "error":
            yield f"{output.get('ename', 'error')}: {output.get('evalue', '')}"
        else:
            yield _joined(output.get("text", output.get("data", {}).get("text/plain", "")))


def _joined(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
