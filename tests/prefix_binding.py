"""A provider that binds thinking to its request, as some models of Anthropic do."""

from hashlib import sha256

from kaosmem.arguments import json_text
from kaosmem.testing import MessageRuleError


class PrefixBinding:
    """Signs the thinking of each reply with its request, and refuses it under another one.

    The request is the system prompt, the tools and all messages before the reply. Thinking blocks
    may neither be moved nor left out between others. Cache markers are not compared.
    Source: Anthropic, "Preserved thinking".

    Attributes:
        requests: Number of accepted requests.
    """

    def __init__(self):
        self.requests = 0
        # By signature: the digest of the request, the place in the reply, and the thinking.
        self._issued = {}

    def check(self, messages, system="", *, tools=()):
        """Return the number of thinking blocks in a request.

        Raises MessageRuleError if one is bound to another one.
        """
        found = 0
        prefixes = _prefixes(messages, system, tools)
        for position, message in enumerate(messages):
            thinking = [block for block in _blocks(message) if block.get("type") == "thinking"]
            for place, block in enumerate(thinking):
                bound = prefixes[position], place, block["thinking"]
                if self._issued.get(block.get("signature")) != bound:
                    raise MessageRuleError(
                        f"message {position} has thinking that is bound to a different conversation",
                        rule="prefix_binding",
                        position=position,
                    )
                found += 1
        return found

    def reply(
        self, messages, system="", *, tools=(), content=(), thinking=("I look at the request.",)
    ):
        """Return the content of a reply: signed thinking, then the given blocks.

        Raises as `check`.
        """
        self.check(messages, system, tools=tools)
        self.requests += 1
        prefix = _prefixes(messages, system, tools)[-1]
        signed = []
        for place, thought in enumerate(thinking):
            signature = sha256(f"{self.requests} {place} {prefix}".encode()).hexdigest()
            self._issued[signature] = prefix, place, thought
            signed.append({"type": "thinking", "thinking": thought, "signature": signature})
        return signed + [dict(block) for block in content]


def _prefixes(messages, system, tools):
    """Return digests of the request before each message, and of all of it, without markers."""
    said = sha256(json_text(_unmarked([system, list(tools)])).encode())
    digests = [said.hexdigest()]
    for message in messages:
        said.update(json_text(_unmarked([message["role"], _blocks(message)])).encode())
        digests.append(said.hexdigest())
    return digests


def _blocks(message):
    content = message["content"] or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _unmarked(value):
    if isinstance(value, dict):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list | tuple) else value
