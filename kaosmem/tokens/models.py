"""Context lengths and encodings of models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_name

# By names without maker, date and size, as the makers' model pages gave them in November 2026:
# platform.openai.com, platform.claude.com, ai.google.dev, docs.mistral.ai, api-docs.deepseek.com,
# the model cards of Llama and Qwen. The lengths of gpt-5.5, claude-fable-5, gemini-3.1-pro,
# gemini-3.5 and deepseek-v4 are from listings of others, and those of gpt-oss and the codex models
# were not looked up again, nor those of Grok, Kimi, GLM and Qwen 3. A model without a good source
# is left out.
_NAMES = {
    8_192: "gpt-4 llama-3",
    16_385: "gpt-3.5-turbo gpt-35-turbo",
    32_768: "qwen-max qwen3 qwen3-30b-a3b qwen3-235b-a22b",
    128_000: "gpt-4-turbo gpt-4-1106-preview gpt-4-0125-preview gpt-4-vision-preview gpt-4o "
    "gpt-4o-mini o1-mini deepseek-chat deepseek-reasoner mistral-large mistral-medium "
    "deepseek-r1 deepseek-v3 deepseek-v3.1 deepseek-v3.2 gpt-5-chat "
    "mistral-small mistral-nemo ministral-3b ministral-8b magistral-medium pixtral-large",
    131_072: "llama-3.1 llama-3.2 llama-3.3 qwen2.5-32b qwen2.5-72b gpt-oss-20b gpt-oss-120b "
    "grok-3 grok-3-mini kimi-k2 glm-4.5 glm-4.5-air",
    200_000: "o1 o1-pro o3 o3-mini o3-pro o4-mini claude-3-opus claude-3-sonnet claude-3-haiku "
    "claude-3-5-haiku "
    "claude-3-5-sonnet claude-3-7-sonnet claude-opus-4 claude-opus-4-1 claude-opus-4-5 "
    "claude-sonnet-4 "
    "claude-sonnet-4-5 claude-haiku-4-5 glm-4.6",
    256_000: "grok-4 codestral devstral-medium devstral-small",
    262_144: "qwen3-coder qwen3-coder-480b-a35b qwen3-coder-30b-a3b qwen3-max qwen3-next-80b-a3b "
    "qwen3-30b-a3b-instruct-2507 "
    "qwen3-30b-a3b-thinking-2507 qwen3-235b-a22b-instruct-2507 qwen3-235b-a22b-thinking-2507",
    400_000: "gpt-5 gpt-5-mini gpt-5-nano gpt-5-pro gpt-5-codex gpt-5.1 gpt-5.1-codex "
    "gpt-5.1-codex-mini "
    "gpt-5.1-codex-max gpt-5.2 gpt-5.2-codex gpt-5.2-pro gpt-5.3-codex gpt-5.4-mini gpt-5.4-nano",
    1_000_000: "claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5 claude-sonnet-4-6 "
    "claude-sonnet-5 "
    "claude-fable-5 deepseek-v4-pro deepseek-v4-flash qwen3.6-plus",
    1_047_576: "gpt-4.1 gpt-4.1-mini gpt-4.1-nano",
    1_048_576: "gemini-1.5-flash gemini-2.0-flash gemini-2.0-flash-lite gemini-2.5-pro "
    "gemini-2.5-flash "
    "gemini-flash gemini-flash-lite gemini-pro "
    "gemini-2.5-flash-lite gemini-3-pro gemini-3-flash gemini-3.1-pro gemini-3.1-flash-lite "
    "gemini-3.5-flash llama-4-maverick",
    1_050_000: "gpt-5.4 gpt-5.5",
    2_097_152: "gemini-1.5-pro",
    10_485_760: "llama-4-scout",
}
_CONTEXT_LENGTHS: dict[str, int] = {}
for _length, _names in _NAMES.items():
    _CONTEXT_LENGTHS |= dict.fromkeys(_names.split(), _length)

# Models whose length no page gave yet. Each counts as the newest known model of its family. Those
# of a new family count as the least of their maker's models since 2024.
_COUNTED_AS = {
    "claude-opus-5": "claude-opus-5-5",
    "claude-sonnet-5": "claude-sonnet-5-5",
    "claude-haiku-4-5": "claude-haiku-5-5 claude-mythos claude-mythos-5",
    "claude-fable-5": "claude-fable-5-1 claude-fable-5-2",
}
for _model, _names in _COUNTED_AS.items():
    _CONTEXT_LENGTHS |= dict.fromkeys(_names.split(), _CONTEXT_LENGTHS[_model])

# Models that bind thinking to the request that produced it. Source: Anthropic, "Preserved
# thinking", November 2026.
_PRESERVE_THINKING = (
    *(
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
    ),
    *("claude-mythos", "claude-mythos-5"),
)

# A suffix of a name: a date or revision, a size, a channel. A single number does not, it makes
# another model.
_VERSION = re.compile(
    r"(?:[-@:](?:\d{3,}(?:-\d\d){0,2}|\d+b|v\d+(?:-\d+)?|0|latest|preview|exp|instruct))*"
)
_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_MAKERS = re.compile(r".*/|(?:\w+\.)?(?:anthropic|meta)\.|meta-")


def context_length(model: str) -> int:
    """Return the number of tokens that a model reads and writes at once.

    A new model whose length is not published counts as the newest known model of its family:
    claude-opus-5.5 as claude-opus-5. Raises InvalidArgumentError.

    Args:
        model: Its name, with or without maker, date and size; a version has a point or a hyphen.

    >>> context_length("gpt-4o-2024-08-06"), context_length("anthropic/claude-opus-4.5")
    (128000, 200000)
    """
    name = _name(model)
    if known := _known(name, _CONTEXT_LENGTHS):
        return _CONTEXT_LENGTHS[known]
    close = get_close_matches(name, _CONTEXT_LENGTHS, n=3, cutoff=0.4)
    if close:
        hint = f"the closest known are {', '.join(close)}; "
    else:
        hint = ""
    raise InvalidArgumentError(
        f"the context length of model {shown_name(model)} is not known; {hint}"
        "give a budget in tokens"
    )


def encoding_of(model: str) -> str | None:
    """Return the name of the encoding that an OpenAI model reads, None for any other model.

    Source: tiktoken, which knows families of names. o200k_harmony differs from o200k_base in
        special tokens alone.

    >>> encoding_of("gpt-4o-mini"), encoding_of("openai/gpt-4-turbo")
    ('o200k_base', 'cl100k_base')
    >>> encoding_of("claude-opus-4.5") is None
    True
    """
    from tiktoken.model import encoding_name_for_model

    with suppress(KeyError):
        return encoding_name_for_model(_name(model)).replace("o200k_harmony", "o200k_base")
    return None


def preserves_thinking(model: str) -> bool:
    """Return whether a model binds its thinking to the request that produced it.

    Such a model refuses thinking that comes back in a request with another beginning.

    >>> preserves_thinking("anthropic/claude-opus-5.5"), preserves_thinking("claude-opus-4-5")
    (True, False)
    """
    return bool(_known(_name(model), _PRESERVE_THINKING))


def _known(name: str, models: Iterable[str]) -> str:
    """Return which of these models a name is a version of, "" for none."""
    plain = _POINT.sub("-", name)
    for known in sorted(models, key=len, reverse=True):
        key = _POINT.sub("-", known)
        if plain.startswith(key) and _VERSION.fullmatch(plain, len(key)):
            return known
    return ""


def _name(model: object) -> str:
    """Return a model's name in lower case, without its maker."""
    if isinstance(model, str):
        return _MAKERS.sub("", model.lower())
    return ""
