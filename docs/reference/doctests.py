"""Shows the examples of docstrings as code. `zensical.toml` names this file."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts the examples of each docstring into blocks of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = with_code_blocks(obj.docstring.value)


def with_code_blocks(text: str) -> str:
    """Return a docstring whose examples are fenced. An example ends with an empty line."""
    shown = []
    is_example = False
    for line in text.splitlines():
        if not is_example and line.startswith(">>>"):
            shown.append("```pycon")
            is_example = True
        elif is_example and not line.strip():
            shown.append("```")
            is_example = False
        shown.append(line)
    if is_example:
        shown.append("```")
    return "\n".join(shown)
