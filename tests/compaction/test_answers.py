"""Only a summary is taken as one, and few summaries are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaosmem import ChatMessage, InvalidArgumentError
from kaosmem.clients import ModelAnswer
from kaosmem.compaction import SummarizationCompaction, Summarizer
from kaosmem.compaction.answers import check_answer, whole_part
from kaosmem.compaction.fallback import fallback_reason
from kaosmem.compaction.model_requests import ModelRequests
from kaosmem.testing import ScriptedLLM
from tests.compaction import summaries

SOURCE = (
    "[user] We move the shop to PostgreSQL. Deploy to /srv/shop on port 8443, and keep TASK-17 "
    "open. The "
    "authentication fails with error 500 for /api/login. The refund policy of ACME holds. Please "
    "do not "
    "restart the database. The parser and tests/test_parser.py failed with exit code 3. The search "
    "has a rate limit.\n"
)
CHINESE = "[user] 我们把商店迁移到新的数据库，登录失败，请不要重启数据库。\n"

UNGROUNDED = "too little of the conversation"

REFUSALS = [
    "I'm sorry, but I can't help with that. Request req_011CQ2.",
    "I can't assist with that request. It involves content that goes against our guidelines. "
    "Please feel free to ask "
    "me something else that I could support you with instead.",
    "Es tut mir leid, aber dabei kann ich leider nicht helfen.",
    "Leider kann ich diese Anfrage nicht beantworten.",
    "Je suis désolé, mais je ne peux pas vous aider.",
    "Lo siento, no puedo ayudar con eso.",
    "Desculpe, mas não posso ajudar com isso.",
    "Mi dispiace, ma non posso aiutarti.",
    "Извините, но я не могу помочь с этим.",
    "很抱歉，我无法协助处理这个请求。",
    "申し訳ありませんが、そのご要望にはお応えできません。",
    "죄송합니다. 그 요청은 도와드릴 수 없습니다.",
    "The response was filtered due to the prompt triggering the content management policy.",
    "Your request was rejected as a result of our safety system.",
]
ANNOUNCEMENTS = [
    "I will now run the tests in tests/test_parser.py.",
    "Sure, let me check the database first.",
    "Ich werde jetzt die Tests ausführen.",
    "Je vais maintenant lancer les tests.",
    "Voy a ejecutar las pruebas.",
    "我现在要运行测试。",
    "让我先检查数据库。",
    "これから、テストを実行します。",
]
CALLS = [
    '{"name": "run", "arguments": {"path": "tests/test_parser.py"}}',
    '```json\n[{"name": "run", "input": {}}]\n```',
    '<tool_call>{"name": "run"}</tool_call>',
    "[TOOL_CALLS] run",
    'run_tests({"path": "tests/test_parser.py"})',
    'search(query="the fee")',
    '{"done": ["moved the shop"], "error": "exit code 3", "open": "TASK-17"}',
]
ERRORS = [
    "500 Internal Server Error",
    "HTTP 503 Service Unavailable",
    "Error: 429 Too Many Requests",
    "Error code: 429 - {'error': {'message': 'Rate limit'}}",
    "Rate limit exceeded. Please try again in 20 s.",
    "<html><head><title>502 Bad Gateway</title>",
    '{"error": {"message": "overloaded", "type": "overloaded_error"}}',
    'Traceback (most recent call last):\n  File "a.py"',
    "upstream connect error or disconnect/reset before headers",
]
POLICIES = [
    "Unsere Nutzungsrichtlinien untersagen jede Erzeugung schädlicher Inhalte, insbesondere "
    "Anleitungen zu Gewalt, "
    "Betrug, Belästigung sowie Verbreitung privater Angaben fremder Personen im Internet.",
    "Regulamin zabrania tworzenia treści szkodliwych, nielegalnych, obraźliwych oraz naruszających "
    "prywatność innych "
    "osób; prosimy o zadanie innego pytania dotyczącego dozwolonych tematów.",
]
TOO_LITTLE = ["They talked.", "No decisions were made.", "512 characters were said."]
NO_SUMMARIES = [
    *((text, UNGROUNDED) for text in (*REFUSALS, *ANNOUNCEMENTS, *POLICIES, *TOO_LITTLE)),
    *((text, "a call") for text in CALLS),
    *((text, f"a call|{UNGROUNDED}") for text in ERRORS),
    (
        "The user keeps TASK-17 open and forbids to restart the database. The parser failed: see "
        "https://help.ex.com/a, mail support@ex.com and quote req_011CQ2.",
        UNGROUNDED,
    ),
    ("", "empty"),
]

SUMMARIES = [
    "- moved the shop\n- tests fail\n- TASK-17 open",
    "# Done\nmoved the shop\n\n# Open\nTASK-17",
    # They begin as a refusal, an announcement, a call or an error does.
    "I cannot reach the database on port 8443.",
    "I'm sorry, but I can't repeat passwords. The user moves the shop to PostgreSQL, keeps TASK-17 "
    "open and forbids to "
    "restart the database.",
    "The request violates the refund policy of ACME, says the user.",
    "I will now summarise: the user moves the shop to PostgreSQL.",
    "Let me run through it. The user moves the shop to PostgreSQL, deploys to /srv/shop on port "
    "8443 and forbids to "
    "restart the database.",
    'search({"q": "parser"}) was called and found /srv/shop (three times)',
    'run_tests({"path": "tests/test_parser.py"}) failed with exit code 3.',
    "Error 500 was returned by /api/login; the fix is open.",
    "The rate limit of the search was reached.",
    # In another language, with facts of the conversation.
    "Der Laden zieht nach PostgreSQL um. Die Freigabe von TASK-17 steht noch aus, der Anschluss "
    "8443 bleibt erhalten, "
    "und niemand startet irgendetwas ungefragt neu.",
    # The names are said in full.
    "Changed: /repo/srv/shop, /repo/tests/test_parser.py and https://shop.test/api/login.",
]


@pytest.mark.parametrize(("text", "fault"), NO_SUMMARIES)
def test_a_text_that_is_no_summary_is_refused(text, fault):
    with pytest.raises(InvalidArgumentError, match=fault):
        check_answer(text, SOURCE)


@pytest.mark.parametrize("text", SUMMARIES)
def test_a_summary_that_looks_like_another_text_is_taken(text):
    check_answer(text, SOURCE)
    assert whole_part(text) == text


@pytest.mark.parametrize(
    "text", ["我先检查了数据库，然后修复了登录。", "我将商店迁移到数据库。", "接下来：重启数据库。"]
)
def test_a_chinese_summary_in_the_first_person_is_taken(text):
    check_answer(text, CHINESE)


@pytest.mark.parametrize("language", summaries.GOOD)
def test_short_summaries_are_taken_in_six_languages(language):
    """They are 41, and none is refused or shortened."""
    for text in summaries.GOOD[language]:
        source = summaries.SOURCES[language]
        check_answer(text, source)
        assert whole_part(text) == text


DOCS = "\n".join(path.read_text(encoding="utf-8") for path in sorted(Path("docs").glob("*.md")))


@pytest.mark.parametrize("text", summaries.NONE)
def test_texts_without_a_summary_are_refused_in_many_forms(text):
    """Of a short source, and of one so long that all of their words are somewhere in it."""
    for source in (summaries.SOURCE, DOCS):
        with pytest.raises(InvalidArgumentError):
            check_answer(text, source)


@pytest.mark.parametrize("text", summaries.HALVES)
def test_half_a_sentence_alone_leaves_nothing(text):
    assert whole_part(text) == ""


def test_a_number_before_words_ends_no_sentence():
    """It counts an entry, or a day."""
    entries = "1. Copy the database\n2. Move to PostgreSQL\n3. Restart the shop"
    assert whole_part(entries) == entries
    half = "Herr Wenzel kommt ab dem 6. Oktober und der Estrich wird ab dem"
    assert whole_part(f"Die Küche wird renoviert. {half}") == "Die Küche wird renoviert."
    assert whole_part(half) == ""


def test_a_summary_of_a_long_source_has_more_of_its_words():
    """Three words of a short source are enough, of one of a few words all of them."""
    words = [f"word{chr(97 + n // 10)}{chr(97 + n % 10)}x" for n in range(200)]
    for text in ("The weather was lovely.", "Gulls cried.", "天气很好。"):
        with pytest.raises(InvalidArgumentError, match=UNGROUNDED):
            check_answer(text, " ".join(words))
    for size, least in ((200, 4), (50, 3), (3, 1)):
        source = " ".join(words[:size])
        check_answer(f"{' '.join(words[:least])}.", source)
        with pytest.raises(InvalidArgumentError):
            check_answer(f"{' '.join(words[: least - 1])} nothing.", source)


def test_short_names_of_the_conversation_are_known():
    check_answer("Merged #88, #89 and #90.", "[user] Merge #88, #89 and #90 of the fork.")


def test_a_translation_needs_no_words_of_its_source():
    """But it names a fact of a source that has several. So no refusal passes for one."""
    check_answer("Der Laden zieht um, und TASK-17 bleibt offen.", SOURCE, free=True)
    check_answer("Sie sprachen vom Wetter.", "[user] The weather is lovely.", free=True)
    for text in (*REFUSALS, *POLICIES):
        with pytest.raises(InvalidArgumentError, match=UNGROUNDED):
            check_answer(text, SOURCE, free=True)


@pytest.mark.parametrize(
    ("text", "stop_reason", "whole"),
    [
        ("They met. They agreed on the", "", "They met."),
        ("Moved, tested,", "", ""),
        ("They met. It failed (in", "", "They met."),
        ("They met. The user wants authent", "", "They met."),
        ("They met. Anna wants the report on", "", "They met."),
        ("Changed x to y", "", ""),
        ("他们见面了。然后，", "", "他们见面了。"),
        ("They met. Then the user said so", "length", "They met."),
        ("They met. Then the user said so", "MAX_TOKENS", "They met."),
        ("- one\n- two\n- thr", "length", "- one\n- two"),
        # These are whole.
        ('He said "go."', "length", 'He said "go."'),
        ("They met. Next: call the bank", "stop", "They met. Next: call the bank"),
        ("Changed x to y", "stop", "Changed x to y"),
        ("They met. Next: call the bank", "", "They met. Next: call the bank"),
        ("- one\n- two", "", "- one\n- two"),
        ("Call foo(x)", "", "Call foo(x)"),
    ],
)
def test_half_a_sentence_is_cut_off(text, stop_reason, whole):
    assert whole_part(text, stop_reason=stop_reason) == whole


SAID = [ChatMessage("user", SOURCE * 20)]
LONG = "They move the shop to PostgreSQL. " * 5


async def test_an_answer_that_was_cut_short_ends_with_a_sentence():
    """If little is missing, it is taken at once.

    Else the model is asked again, and the half that is whole is kept.
    """

    def cut(text):
        return ModelAnswer("assistant", text, stop_reason="max_tokens")

    model = ScriptedLLM([cut(f"{LONG}The user")])
    made = await Summarizer(model).summarize(SAID)
    assert made.text.startswith(f"{LONG.strip()}\n\n")
    model = ScriptedLLM(
        lambda _: cut("They move the shop to PostgreSQL. They tell all of the team")
    )
    made = await Summarizer(ModelRequests(model, attempts=2)).summarize(SAID)
    assert (made.text.split("\n")[0], len(model.requests)) == (
        "They move the shop to PostgreSQL.",
        2,
    )
    model = ScriptedLLM(lambda _: cut(LONG))
    made = await Summarizer(model).summarize(SAID)
    assert (made.text.split("\n")[0], len(model.requests)) == (LONG.strip(), 1)


@pytest.mark.parametrize("stop_reason", ["refusal", "content_filter", "SAFETY"])
async def test_an_answer_that_was_filtered_is_none(stop_reason):
    model = ScriptedLLM(lambda _: ModelAnswer("assistant", LONG, stop_reason=stop_reason))
    made = await Summarizer(model).summarize(SAID)
    assert fallback_reason(made.text) == "no usable answer: it was declined or filtered"


async def test_a_model_without_answers_is_seldom_asked():
    """In 210 steps of ten seconds, nine requests: three at first, and one after each pause."""
    now = [0.0]
    model = ScriptedLLM(lambda _: "")
    summarizer = Summarizer(ModelRequests(model, clock=lambda: now[0]))
    strategy = SummarizationCompaction(summarizer, 100, 100)
    history = [ChatMessage("user", "Move the shop.")]
    for step in range(210):
        now[0] = 10.0 * step
        history.append(
            ChatMessage("assistant", f"Step {step}: " + "the work goes on as before. " * 20)
        )
        history = await strategy.compact(history)
    assert len(model.requests) == 9
    summary = next(message for message in history if message.role == "summary")
    assert fallback_reason(summary.text) == "no usable answer: it was empty"
