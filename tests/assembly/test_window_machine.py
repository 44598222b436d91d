"""Random sessions with windows, against a provider that binds thinking."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.assembly.windows import World

_sections = st.sampled_from(["documents", "findings", "findings", "working", "intent", "role"])
_windows = st.sampled_from(["main", "main", "main", "side"])
_budgets = st.sampled_from([500, 900, 900, 900, 2_500])
_replies = st.sampled_from(["", "", "tool", "none"])
_keys = st.sampled_from([None, None, "fee", "owner"])
_texts = st.sampled_from(["", "", "The rent of house 3? ", "word " * 60])


class WindowMachine(RuleBasedStateMachine):
    """No request is rejected or over budget, each extends the one before, and all counts are exact."""

    @initialize(
        format_=st.sampled_from(["anthropic", "anthropic", "openai"]), documents=st.integers(0, 12)
    )
    def begin(self, format_, documents):
        self.runner = asyncio.Runner()
        self.world = World(self.runner, format_)
        for _ in range(documents):
            self.world.add("documents")

    @rule(
        section=_sections,
        key=_keys,
        text=_texts,
    )
    def add(self, section, key, text):
        if section == "role" and self.world.memory["role"].used > 100:
            return
        self.world.add(
            section,
            text,
            key=f"{section} {key}" if key and section in ("findings", "role") else None,
        )

    @rule(text=_texts, window=_windows, budget=_budgets, reply=_replies)
    def ask(self, text, window, budget, reply):
        self.world.say(text)
        self.world.call(window, budget=budget, reply=reply)

    @rule(text=_texts, turns=st.integers(1, 5), reply=_replies)
    def ask_on(self, text, turns, reply):
        for _ in range(turns):
            self.world.say(text)
            self.world.call(reply=reply)
            self.world.answer()

    @rule(
        window=_windows,
        budget=_budgets,
        reply=_replies,
        block=st.sampled_from([None, 0, 60, 2_000]),
        reserve=st.sampled_from([0, 0, 100, 300]),
    )
    def call(self, window, budget, reply, block, reserve):
        self.world.call(window, budget=budget, reply=reply, block=block, reserve=reserve)

    @rule(reply=_replies)
    def rebase(self, reply):
        self.world.call(rebase=True, reply=reply)

    @rule(text=_texts)
    def answer(self, text):
        self.world.answer(text)

    @rule(data=st.data(), change=st.sampled_from(["update", "remove", "forget"]))
    def change(self, data, change):
        memory = self.world.memory
        if live := [item_id for item_id in self.world.texts if item_id in memory]:
            getattr(self.world, change)(data.draw(st.sampled_from(live)))

    @rule(
        data=st.data(),
        before=st.sampled_from(["", "update"]),
        after=st.sampled_from(["", "remove", "forget", "expire"]),
    )
    def replace(self, data, before, after):
        """A fact that was asked for gets a new version, which may leave before the next question."""
        if not self.world.facts:
            self.world.add("findings", key="findings fee")
        self.world.say()
        self.world.call(budget=2_500)
        if facts := self.world.facts:
            self.world.replace(data.draw(st.sampled_from(facts)), before=before, after=after)
        self.world.say()
        self.world.call(budget=2_500)

    @rule()
    def reopen(self):
        self.world.reopen()

    @rule(window=_windows, text=_texts, continues=st.booleans(), reply=_replies)
    def another_writer(self, window, text, continues, reply):
        """Another handle continues a window from what was saved, and so may this one."""
        self.world.save()
        if continues:
            self.world.say(text)
            self.world.call(window, reply=reply)
        with self.world.forked():
            self.world.say(text)
            self.world.call(window)

    def teardown(self):
        if hasattr(self, "runner"):
            self.world.close()
            self.runner.close()


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = settings(max_examples=12, stateful_step_count=20)
