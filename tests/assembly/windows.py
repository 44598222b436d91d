"""A session whose windows are continued against a provider that binds thinking, every request checked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from kaosmem import (
    Reason,
    SectionSpec,
    SessionMemory,
    SessionOptions,
    Window,
    WindowTooSmallError,
)
from kaosmem.arguments import json_text
from kaosmem.formats import count_messages
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.testing import check_anthropic_messages, check_openai_messages
from tests.prefix_binding import PrefixBinding

SECTIONS = (
    SectionSpec("role", 2_000, 100, placement="static", eviction="none", header=""),
    SectionSpec("messages", 1_200, 90, placement="history"),
    SectionSpec("intent", 200, 85, recall=0.0, max_items=1),
    SectionSpec("findings", 600, 70, floor=0.1),
    SectionSpec("working", 200, 60, persistence="none"),
    SectionSpec("documents", None, 50, floor=0.35, eviction="none", retrieval_threshold=4),
)


def _clock():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return (start + timedelta(seconds=second) for second in count())


@dataclass
class Sent:
    """A request of a window."""

    epoch: int
    used: int
    system: object
    messages: list[dict[str, object]]

    def begins(self, context, system):
        """Return whether a later request begins with this one, and counts it so."""
        said = self.epoch, self.used, self.system, self.messages
        return said == (
            context.epoch,
            context.prefix_tokens,
            system,
            context.messages[: len(self.messages)],
        )


@dataclass
class World:
    """One session, its windows and the provider.

    sent: the requests of each window. is_forked: whether several handles continued windows, so that
        a request extends
    any of them. gone: texts that no request may show any more. versions: ids of the versions of
    each key, oldest first.
    rebased: the reasons of all requests, "" for a window that went on. bound: thinking blocks that
        came back.
    """

    runner: asyncio.Runner
    format: str = "anthropic"
    provider: PrefixBinding = field(default_factory=PrefixBinding)
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    is_forked: bool = False
    has_spoken: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    versions: dict[str, list[str]] = field(default_factory=dict)
    rebased: list[str] = field(default_factory=list)
    bound: int = 0
    tick: Iterator[datetime] = field(default_factory=_clock)
    number: Iterator[int] = field(default_factory=count)
    waiting: list[str] = field(default_factory=list)
    open: list[object] = field(default_factory=list)

    def __post_init__(self):
        self.fs = IsolatedMemoryFileSystem()
        self.memory = self.opened()

    def opened(self):
        """Return another handle of the session."""
        manager = SessionMemory.open(
            self.fs, "s", sections=SECTIONS, options=SessionOptions(clock=lambda: next(self.tick))
        )
        self.open.append(manager)  # which would close the session if it were let go of
        return self.runner.run(manager.__aenter__())

    def close(self):
        self.runner.run(self.memory.admin.close())

    # changes

    def add(
        self,
        section,
        text="",
        *,
        key=None,
        role=None,
        ttl_s=None,
    ):
        """Add an item with a number of its own, and return its id."""
        item_id = f"i{next(self.number)}"
        said = f"fact-{item_id}: the fee of house {len(self.texts) % 7} is {len(self.texts)} euros. {text}"
        self.memory.add(section, said, id=item_id, key=key, role=role, ttl_s=ttl_s)
        self.texts[item_id] = f"fact-{item_id}:"
        if key is not None:
            self.versions.setdefault(key, []).append(item_id)
        return item_id

    def say(self, text=""):
        """Let the user speak."""
        self.waiting = []
        self.has_spoken = True
        return self.add("messages", text or "What is the fee?", role="user")

    def update(self, item_id):
        """Put another text in an item's place."""
        self.gone.add(self.texts[item_id])
        self.texts[item_id] = f"fact-{item_id}-{next(self.number)}:"
        self.memory.update(item_id, f"{self.texts[item_id]} it was wrong.")

    def remove(self, item_id):
        self.memory.remove(item_id)
        self.lose(item_id)

    def forget(self, item_id):
        self.runner.run(self.memory.forget(item_id))
        self.lose(item_id)

    def lose(self, item_id):
        """Note that a live item has left. No version that it replaced comes back."""
        lost = next((each for each in self.versions.values() if item_id in each), [item_id])
        self.gone.update(self.texts.pop(each) for each in lost if each in self.texts)

    @property
    def facts(self):
        """The live items that have a key."""
        live = [*self.memory["findings"], *self.memory["role"]]
        return [item for item in live if item.key is not None]

    def replace(self, item, *, before, after):
        """Give a fact a new version.

        Args:
            before: "update" to change its text first.
            after: What becomes of the new version: "", "remove", "forget" or "expire".
        """
        if before == "update":
            self.update(item.id)
        ttl_s = 0.5 if after == "expire" else None
        new_id = self.add(item.section, key=item.key, ttl_s=ttl_s)
        if after == "expire":
            self.lose(new_id)
        elif after:
            getattr(self, after)(new_id)

    def save(self):
        self.runner.run(self.memory.save())

    def reopen(self):
        """Save the session, and go on in another handle.

        No file has the texts of a section that is not kept.
        """
        self.save()
        unstored = [item.id for item in self.memory["working"]]
        self.close()
        files = [self.fs.cat_file(path) for path in self.fs.find("")]
        for item_id in unstored:
            assert not any(self.texts[item_id].encode() in file for file in files)
            self.gone.add(self.texts.pop(item_id))
        self.memory = self.opened()

    @contextmanager
    def forked(self):
        """Let another handle do something, which is then saved, from what this one saved last; then save this one."""
        mine = self.memory
        waiting = self.waiting
        self.is_forked, self.memory, self.waiting = True, self.opened(), []
        try:
            yield
            self.save()
        finally:
            self.close()
            self.memory = mine
            self.waiting = waiting
        self.save()

    # requests

    def call(
        self,
        window="main",
        *,
        budget=900,
        reply="",
        reserve=0,
        block=None,
        rebase=False,
    ):
        """Continue a window, check the request, and add the provider's reply.

        reply: "" for a text, "tool" for a call of a tool, "none" for a reply that is lost.
        """
        try:
            context = self.runner.run(
                self.memory.assemble_context(
                    budget=budget,
                    format=self.format,
                    window=Window(window, block=block, rebase=rebase),
                    reserve=reserve,
                )
            )
        except WindowTooSmallError:
            return None
        self.check(window, context, budget - reserve)
        if self.format == "anthropic":
            self.bound += self.provider.check(context.messages, context.system)
        number = next(self.number)
        content = [{"type": "text", "text": f"reply {number}"}]
        if reply == "tool":
            content = [
                {
                    "type": "tool_use",
                    "id": f"c{number % 3}",
                    "name": "search",
                    "input": {"q": number},
                }
            ]
        if reply != "none" and context.messages:  # a provider takes no request without messages
            system = context.system if self.format == "anthropic" else ""
            said = (
                self.provider.reply(context.messages, system, content=content)
                if system is not None
                else content
            )
            self.memory.add_message({"role": "assistant", "content": said}, format="anthropic")
            self.waiting = [str(content[0]["id"])] if reply == "tool" else []
        return context

    def second_reply(self, window="main"):
        """Return another reply to the last request of a window."""
        sent = self.sent[window][-1]
        return self.provider.reply(sent.messages, sent.system)

    def answer(self, text="found"):
        """Give the results of the calls that wait."""
        for call in self.waiting:
            result = {"type": "tool_result", "tool_use_id": call, "content": text}
            self.memory.add_message({"role": "user", "content": [result]}, format="anthropic")
        self.waiting = []

    def check(self, window, context, budget):
        """Check one request against the last one of its window, the providers' rules and the true state."""
        system = context.system if self.format == "anthropic" else ""
        assert context.used == count_messages(context.messages, self.format, system=system)
        assert context.used <= budget
        assert context.used == context.prefix_tokens + context.appended
        assert sum(use.used for use in context.by_section.values()) + context.frame == context.used
        assert len(context.cache_breakpoints) <= 4
        assert all(0 <= place < len(context.messages) for place in context.cache_breakpoints)
        if self.format == "anthropic":
            check_anthropic_messages(context.messages, context.system)
        else:
            check_openai_messages(context.messages)
        before = self.sent.setdefault(window, [])
        if context.rebased is None:
            assert before
            extended = [each for each in before if each.begins(context, system)]
            assert extended if self.is_forked else before[-1] in extended[-1:]
        else:
            assert context.epoch == (before[-1].epoch + 1 if before else 1) or self.is_forked
            assert "thinking" not in {
                block["type"]
                for each in context.messages
                for block in each["content"] or ()
                if isinstance(block, dict)
            }
            assert context.prefix_tokens == 0
        said = json_text([system, context.messages])
        assert not [text for text in self.gone if text in said]
        for versions in self.versions.values():
            shown = [said.rfind(self.texts[each]) for each in versions if each in self.texts]
            assert not shown or shown[-1] == max(shown) or not self._is_asked
        for item in context.items:
            assert context.decision(item.id).included
        assert not self.has_spoken or all(
            each.reason is not Reason.LATER for each in context.decisions
        )
        self.has_spoken = False
        self.rebased.append(context.rebased or "")
        before.append(Sent(context.epoch, context.used, system, context.messages))

    @property
    def _is_asked(self):
        newest = next(reversed(self.memory["messages"]), None)
        return newest is not None and newest.role == "user" and isinstance(newest.content, str)
