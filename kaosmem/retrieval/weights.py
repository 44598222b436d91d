"""Weights of the signals, in `weights*.json`; `benchmarks/train_ranker.py` learns them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files

from kaosmem.errors import InvalidArgumentError


@dataclass(frozen=True)
class Weights:
    """Two linear models over signals by name; a signal that is not named weighs nothing.

    conversation: where items have several roles. documents: elsewhere.
    """

    conversation: Mapping[str, float]
    documents: Mapping[str, float]

    def to_json(self) -> str:
        """Return the weights as a JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Weights:
        """Return the weights that `to_json` made a text of. Raises InvalidArgumentError."""
        try:
            models = {
                name: {signal: float(weight) for signal, weight in model.items()}
                for name, model in json.loads(text).items()
            }
            return cls(**models)
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidArgumentError(
                f"not the weights of a ranker: {type(error).__name__}; give the JSON that `Weights.to_json` makes"
            ) from None


@cache
def default_weights(file: str = "weights.json") -> Weights:
    """Return the weights that come with kaosmem: by default those without embeddings."""
    return Weights.from_json(files("kaosmem.retrieval").joinpath(file).read_text(encoding="utf-8"))
