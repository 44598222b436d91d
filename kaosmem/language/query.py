"""A question as sources are asked it: its text, and the days that it speaks of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from kaosmem.arguments import Clock
from kaosmem.language.analysis import analyze
from kaosmem.language.dates import (
    PastQuestion,
    Period,
    past_question,
    periods_in,
    without_periods,
)
from kaosmem.language.sentences import sentence_ends

if TYPE_CHECKING:
    from kaosmem.types.items import Item
    from kaosmem.types.versions import Version

T = TypeVar("T")

# A sentence in Japanese may ask without a mark.
_QUESTION_MARK = re.compile("[?？؟]|(?<!と)か。")
_QUESTION_AT_END = re.compile(r"(?:[?？؟]|(?<!と)か。?)[\s!！\"'”’»」』)\]*_]*$")
_ASKING_CHARS = 900
"""A question mark is looked for in so much of the end of a text."""


def has_question_near_end(text: str) -> bool:
    """Return whether a text ends with a question, or with little after one.

    >>> has_question_near_end("Where is it? Be quick."), has_question_near_end("It is here.")
    (True, False)
    """
    return bool(_QUESTION_MARK.search(text[-_ASKING_CHARS:]))


def ends_with_question(text: str) -> bool:
    """Return whether the last sentence of a text is a question.

    >>> ends_with_question("Where is it?"), ends_with_question("Where is it? Be quick.")
    (True, False)
    """
    return bool(_QUESTION_AT_END.search(text[-_ASKING_CHARS:]))


MAX_QUERY_CHARS = 8_000
"""A longer query is ranked by an excerpt of at most so many characters."""

_END_CHARS, _QUESTION_CHARS, _WORDS_CHARS = 2_000, 900, 1_500
_WORD_CHARS = range(3, 41)
_REQUESTS = """
    summarise summarize summary recap overview sum tl dr tldr conclude continue proceed go
    explain describe elaborate translate rephrase shorten repeat help tell show list give say
    know think mean happen do done make get discuss talk conversation chat discussion thread
    update please thank thanks hello hi hey ok okay yes right sure next more now new news far
    above previous everything anything something thing stuff all i me my us let das dies diese
    alles bitte danke hallo ja weiter mach fasse fass zusammen zusammenfassen zusammenfassung
    erkläre zeig mir was ist war passiert geschehen gibt neues übersetze gespräch besprochen
    résume résumer résumé tout tous ceci cela ça merci bonjour oui continue explique traduis
    traduire quoi neuf passé s'il vous te plaît la le les en de est conversation resume resumir
    resumen esto todo por favor gracias hola sí sigue continúa explica traduce pasó novedades
    riassumi riassumere riassunto tutto questo grazie ciao continua spiega traduci resuma resumo
    isso obrigado traduza samenvatten samenvatting vat samen alles dank ga verder podsumuj
    podsumowanie dziękuję kontynuuj резюмируй резюме подытожь подведи итог итоги суммируй кратко
    продолжай объясни переведи привет спасибо да это всё περίληψη συνόψισε συνέχισε ευχαριστώ
    got gist catch up miss haben wir bisher worum ging unser fais moi un dit dire qu'est ce qu'on
    parlé avons nous où en sommes hazme dame un qué hemos hablado di cosa abbiamo parlato fammi
    faça um falamos até agora o es qu'est-ce geef me een wat hebben we besproken er gebeurd gesprek het ons
    ge mig en sammanfattning sammanfatta samtalet vad har vi pratat om hänt bana bize bir özet ver
    özetle ne konuştuk konuşmayı oldu मुझे दो हमने क्या बात की अब तक हुआ говорили мы чём
    لخص ملخص تابع شكرا सारांश संक्षेप जारी धन्यवाद 요약 요약해 요약해줘 요약해주세요 해줘 줘 주세요 계속 고마워
"""
"""Words that ask for something and are no subject.

A question of these alone is about all that there is.
"""
_FORMS = """
    one two three four five six seven eight nine ten few short long brief bullet point sentence
    word paragraph line table email list english german french spanish italian portuguese
    russian chinese japanese korean arabic hindi dutch deux trois quatre cinq zwei drei vier
    fünf dos tres cuatro cinco deutsch englisch französisch spanisch satz sätze stichpunkt
    français anglais allemand espagnol phrase phrases points español inglés francés alemán frase
    frases puntos русский английский
"""
"""Words for the form of an answer: no subject beside a word that asks for something."""
_UNSPACED_REQUESTS = """
    请 請 帮我 总结 總結 它 讲了什么 说了什么 概括 概述 归纳 摘要 一下 继续 谢谢 你好 我们
    讨论 聊 了什么 什么 这个 这段 对话 以上 上面 内容 全部 翻译成 翻译 解释 说明 有什么
    新消息 发生 法语 英语 英文 德语 日语 中文 西班牙语 三点 要点 要約 まとめて まとめ して
    ください 続けて 続き お願いします ありがとう こんにちは これまで これ この その 会話 話 上記
    内容 全部 翻訳 説明 教えて 何 話した 英語 日本語 中国語 フランス語 ドイツ語
"""
_UNSPACED = re.compile(
    "|".join(sorted(_UNSPACED_REQUESTS.split(), key=lambda word: (-len(word), word)))
)
"""The same in languages without spaces."""
_PARTICLES = re.compile(r"\b[的了吗呢吧把用成个をはがにでものと]+\b")
"""Chinese and Japanese particles, where nothing else is left between two spaces."""
_WHAT_HAPPENED = re.compile(
    r"\b(?:(?:did|have|had) \w+ (?:do|done|been doing)|happen\w*|discuss\w*|talk\w*|recap|summ\w+|overview|catch me up|"
    r"passiert|geschehen|gemacht|besprochen|zusammen\w*|résum\w+|fait|passé|parlé|"
    r"resum\w+|hecho|pasó|hablado|riassu\w+|fatto)\b",
    re.IGNORECASE,
)
_PATH = r"(?<![\w./\\~@+-])(?P<path>[\w./\\~@+-]*\w\.\w{1,8})"
# Such as `File "app.py", line 12`. The call that failed is the last of these.
_FRAME = re.compile(rf'File "{_PATH}", line (?P<line>\d{{1,7}})\b')
# Such as `app.py:12:5`, `App.java(12)`, `app.py line 12` and `app.py#L12`, and `line 12 of app.py`.
_AFTER = re.compile(rf"{_PATH}[`\"']?(?::|\(|#L|,? line )(?P<line>\d{{1,7}})\b")
_BEFORE = re.compile(rf"\blines? (?P<line>\d{{1,7}})\b[\d -]{{0,12}}(?:of|in) [`\"']?{_PATH}")
_PUNCTUATION = ".,:;!?\"'()[]{}<>`*"


@dataclass(frozen=True)
class Query:
    """A question that ranks candidates. Sources and sections get it; a ranker gets its text alone.

    Attributes:
        text: At most MAX_QUERY_CHARS characters: `read` takes an excerpt of a longer text.
        periods: The days that the text speaks of, each period once: first "last week" and the like,
            then dates.
        past: The text's reference to the past, which brings replaced versions of facts back; None
            for now.
        as_of: The time at which an item must have held.
        known_at: The time at which it must have been known. None is now.
        now: The present. None: no version is taken for one that is yet to begin.
        earlier: What the user said just before. It decides among items that match about equally
            well if the words of the question alone name none: "Who leads it?".

    >>> from datetime import UTC, datetime
    >>> query = Query.read("What happened yesterday?", lambda: datetime(2026, 11, 25, tzinfo=UTC))
    >>> query.periods
    (Period(first=datetime.date(2026, 11, 24), last=datetime.date(2026, 11, 24)),)
    """

    text: str
    periods: tuple[Period, ...] = ()
    past: PastQuestion | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    now: datetime | None = None
    earlier: str = ""

    @classmethod
    def read(
        cls,
        text: str,
        clock: Clock,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
        now: datetime | None = None,
        earlier: str = "",
    ) -> Query:
        """Return the query of a text.

        The clock says which day is today.
        """
        text = excerpt(text)
        relative = periods_in(text, clock)
        if relative:
            today = clock().date()
            past = past_question(text, [each for each in relative if each.first != today])
        else:
            past = past_question(text)
        periods = dict.fromkeys(relative)
        if past is not None:
            periods |= dict.fromkeys(past.days)
        return cls(text, tuple(periods), past, as_of, known_at, now, earlier)

    def begins_later(self, begin: datetime | None) -> bool:
        """Return whether a version that begins then is yet to begin."""
        return self.now is not None and begin is not None and begin > self.now

    def versions_of(
        self, versions: Sequence[Version[T]], found: Collection[T] = ()
    ) -> list[Version[T]]:
        """Return the versions of one fact to show beside the newest one, the most wanted first.

        They are those that the question asks for. If the newest one is yet to begin, the one that
        holds now is among them, and so are all others that are yet to begin.

        Args:
            versions: Oldest first.
            found: The items that match the words of the question.
        """
        begun = [each for each in versions if not self.begins_later(each.valid_from)]
        if self.past is None:
            chosen = []
        else:
            chosen = self.past.choose(begun, found)
        if self.now is not None and len(begun) < len(versions):
            for each in versions[:-1]:
                end = each.valid_until
                is_over = end is not None and end <= max(self.now, each.valid_from)
                if not is_over and each not in chosen:
                    chosen.append(each)
        return chosen

    @cached_property
    def topic(self) -> str:
        """The text without words such as "last week", which name a period and no subject."""
        return without_periods(self.text)

    @cached_property
    def has_topic(self) -> bool:
        """Whether the text has a word that an item can be about, as "Summarise this" has none."""
        topic = _PARTICLES.sub(" ", _UNSPACED.sub(" ", self.topic))
        terms = {term for term in analyze(topic) if any(map(str.isalnum, term))}
        asking = _terms_of(_REQUESTS)
        is_request = topic != self.topic or not asking.isdisjoint(terms)
        telling = terms - asking
        if is_request:
            telling -= _terms_of(_FORMS)
        return bool(telling)

    @cached_property
    def asks_what_happened(self) -> bool:
        """Whether the text asks what was done or said, and names no subject.

        >>> [Query(text).asks_what_happened for text in ("What did we do?", "Do it!")]
        [True, False]
        """
        return _WHAT_HAPPENED.search(self.text) is not None and not self.has_topic

    @cached_property
    def named_lines(self) -> list[tuple[str, int]]:
        """The lines that the text names with their files, the most wanted first.

        >>> Query("What fails in src/app.py:12, and what is line 3 of util.py?").named_lines
        [('src/app.py', 12), ('util.py', 3)]
        """
        frames = [*_FRAME.finditer(self.text)]
        others = chain(_AFTER.finditer(self.text), _BEFORE.finditer(self.text))
        found = chain(reversed(frames), others)
        named = [(match["path"].replace("\\", "/"), int(match["line"])) for match in found]
        return [*dict.fromkeys(named)]

    def admits(self, item: Item) -> bool:
        """Return whether an item held, and was known, at the times that the query asks for."""
        if self.as_of is not None and item.valid_from > self.as_of:
            return False
        return self.known_at is None or item.created_at <= self.known_at


@cache
def _terms_of(words: str) -> frozenset[str]:
    return frozenset(analyze(words))


def excerpt(text: str) -> str:
    r"""Return the part of a text that ranks, such as of a pasted log with a question.

    The time is linear.

    A text of up to MAX_QUERY_CHARS characters is returned whole. Of a longer one, the excerpt holds
    the beginning, the words that are rarest in the text, the last sentence with a question mark,
    and the end.

    >>> log = "request served\n" * 5_000
    >>> text = excerpt(f"Look at this.\n{log}Quota exceeded for tenant.\n{log}")
    >>> len(text), "Quota exceeded for tenant" in text
    (4044, True)
    """
    if len(text) <= MAX_QUERY_CHARS:
        return text
    middle = text[_END_CHARS:-_END_CHARS]
    return "\n".join(
        [text[:_END_CHARS], *_rare_words(middle), _last_question(middle), text[-_END_CHARS:]]
    )


def _last_question(text: str) -> str:
    """Return the end of a text's last sentence with a question mark, "" if there is none."""
    end = max(map(text.rfind, "?？؟")) + 1
    begin = text[max(0, end - _QUESTION_CHARS) : end]
    ends = [0, *(at for at in sentence_ends(begin) if at < len(begin))]
    return begin[ends[-1] :].strip()


def _rare_words(text: str) -> list[str]:
    """Return the rarest words: first those of letters alone, then all others."""
    counts: Counter[str] = Counter()
    for chunk, count in Counter(text.split()).items():
        word = chunk.strip(_PUNCTUATION)
        if len(word) in _WORD_CHARS:
            counts[word] += count
    rarest = sorted(counts, key=counts.__getitem__)
    return [
        " ".join(_within(_WORDS_CHARS, (w for w in rarest if w.isalpha() is letters)))
        for letters in (True, False)
    ]


def _within(most: int, words: Iterable[str]) -> Iterable[str]:
    """Yield the first words that have at most `most` characters together, with blanks."""
    for word in words:
        most -= len(word) + 1
        if most < 0:
            return
        yield word
