"""Terms of scripts other than ASCII: folding, stems, pairs of characters, emoji."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

from kaosmem.memos import memoized, register_memo

# Written without spaces: Thai, Lao, Myanmar, Khmer, Han, kana; and Hangul, whose words end in
# particles.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30fa\u30fc-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that are part of a word and that `\w` misses: Latin, Cyrillic, and those of all Indic
# scripts.
MARKS = "\u0300-\u036f\u0483-\u0487\u0900-\u0963\u0966-\u0dff"

_FLAGS = "\U0001f1e6-\U0001f1ff"
_EMOJI = "\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
_TAGS = "\U000e0020-\U000e007f"

# Nobody puts more than 30 marks on a letter (Unicode's Stream-Safe Text Format), and normalising n
# of them takes n².
_EXCESS_MARKS = re.compile(r"(?<=[^\w\x00-\x7f]{30})[^\w\x00-\x7f]+")
_DIGIT = re.compile(r"[^\D0-9]")
# Between Arabic letters it separates the parts of one word, elsewhere it only keeps letters from
# joining.
_NON_JOINER = re.compile("(?<![\u0600-\u06ff])\u200c")
_JOINER = "\u200d"


# Soft hyphens, stress, variation selectors and skin tones; the nukta; vowels of Hebrew and Arabic,
# which are rarely written, and the stroke that lengthens an Arabic word.
_OPTIONAL = (
    "\u00ad \u0300\u0301 \ufe00-\ufe0f \U000e0100-\U000e01ef \U0001f3fb-\U0001f3ff \u093c "
    "\u0591-\u05bd \u05bf \u05c1\u05c2 \u05c4\u05c5 \u05c7 "
    "\u0610-\u061a \u0640 \u064b-\u065f \u0670 \u06d6-\u06ed"
)
_SIGNS = "\u2018\u2019\u02bc\u2010\u05be\u066b\u066c"
"""Apostrophes, hyphens, and the Arabic decimal and thousands separators."""
_ACCENTED_GREEK = "άέήίϊΐόύϋΰώΆΈΉΊΌΎΏ"
"""Letters with accents, which capitals have not."""
_EXCHANGED = "\u0622\u0623\u0625\u0671\u0649\u06cc\u0629\u06a9\u0451\u0401\u0901"
"""Letters that many write for one another: alef, yeh, teh marbuta and kaf; yo; candrabindu."""
_PLAINER = (
    "'''--.,αεηιιιουυυωΑΕΗΙΟΥΩ\u0627\u0627\u0627\u0627\u064a\u064a\u0647\u0643\u0435\u0415\u0902"
)
"""The characters in the places of these."""
_FOLDING: dict[int, int | None] = {**str.maketrans(_SIGNS + _ACCENTED_GREEK + _EXCHANGED, _PLAINER)}
for _range in _OPTIONAL.split():
    _FOLDING.update(dict.fromkeys(range(ord(_range[0]), ord(_range[-1]) + 1)))


def fold_script(chunk: str) -> str:
    """Return a text in NFKC, without its script's optional marks, its digits as 0 to 9."""
    folded = unicodedata.normalize("NFKC", _EXCESS_MARKS.sub("", chunk)).translate(_FOLDING)
    if "\u200c" in folded:
        folded = _NON_JOINER.sub("", folded)
    return _DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), folded)


_RUN = re.compile(
    f"(?P<unspaced>[{UNSPACED}]+)"
    f"|(?P<emoji>[{_FLAGS}]{{2}}|[{_EMOJI}](?:[{_TAGS}]+|(?:{_JOINER}[{_EMOJI}])*))"
    rf"|(?=\w)[^{UNSPACED}{_EMOJI}{_FLAGS}]+"
)


def terms_of_scripts(folded: str, spaced_terms: Callable[[str], Iterator[str]]) -> Iterator[str]:
    """Yield the terms of a folded text, those of runs in scripts with spaces by `spaced_terms`."""
    for run in _RUN.finditer(folded):
        if run.lastgroup == "unspaced":
            yield from pair_terms(run[0])
        elif run.lastgroup == "emoji":
            yield from _emoji_terms(run[0])
        else:
            yield from spaced_terms(run[0].replace(_JOINER, ""))


def _emoji_terms(emoji: str) -> Iterator[str]:
    """Yield an emoji and, where it is more than one character, each that is an emoji alone."""
    yield emoji[:_MAX_EMOJI_CHARS]
    if len(emoji) > 1:
        yield from _LONE_EMOJI.findall(emoji)


_LONE_EMOJI = re.compile(f"[{_EMOJI}]")
_MAX_EMOJI_CHARS = 16

_HAN = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_HIRAGANA = re.compile("[\u3041-\u309f]")
# A Korean word with its particle, where the pairs alone would hide that the word is one syllable.
_SYLLABLE_AND_PARTICLE = re.compile(
    "[가-힣](?:은|는|이|가|을|를|에|의|도|로|와|과|만|에서|에게|에는|에도|으로|까지|부터|보다|처럼|한테|이나)"
)
_ENDS_IN_PARTICLE = re.compile("[가-힣]{2,}[은는을를]")
# The STOP_WORDS of Chinese and Japanese, as characters and as pairs.
_STOP_CHARS = frozenset("的了是在和与或及也都就而之其于以吗呢のはがをにへともや은는을를에의")
_STOP_PAIRS = frozenset(
    """
    什么 怎么 如何 哪些 哪个 为什 多少 我们 你们 他们 这个 那个 这些 那些 一个 可以 没有 不是 因为 所以 以及
    です ます した して する され れる られ いる いた てい ある あり こと もの ため よう から まで より など だけ
    には では とは への での との にも でも とも につ つい いて けど ので のに ても たり なら この その あの どの
    これ それ あれ どれ どう どこ いつ なに なぜ くだ ださ さい ませ せん まし でき きる とき また およ よび
    합니 입니 습니 니다 니까 에서 으로 에게 부터 까지 하는 하고 하여 해서 하면 무엇 어떻 떻게 언제 어디
    """.split()  # noqa: SIM905 - a list literal would be 80 lines
)


class _PairTerms(dict[str, tuple[str, ...]]):
    """The terms of two neighbouring characters: the first if it is Han, and the pair."""

    _MAX_PAIRS = 1 << 16

    def __missing__(self, pair: str) -> tuple[str, ...]:
        if len(self) >= self._MAX_PAIRS:
            self.clear()
        self[pair] = terms = tuple(_pair_terms(*pair))
        return terms


_PAIR_TERMS = _PairTerms()
register_memo(_PAIR_TERMS.clear)


def _pair_terms(first: str, second: str) -> Iterator[str]:
    yield from _char_terms(first)
    if first + second not in _STOP_PAIRS and not _is_seam(first, second):
        yield first + second


def _char_terms(char: str) -> Iterator[str]:
    if _HAN.match(char) and char not in _STOP_CHARS:
        yield char


def _is_seam(first: str, second: str) -> bool:
    """Return whether no word spans two characters.

    None does so after kana, or around a Chinese or Japanese particle.
    """
    if first == "的" or "を" in (first, second):
        return True
    if _HIRAGANA.match(first):
        return not _HIRAGANA.match(second) and first not in "おご"
    return second in "のは"


def pair_terms(run: str) -> Iterator[str]:
    """Yield the terms of a run of characters without spaces.

    They are each pair of neighbours, and each Han character.
    """
    if len(run) == 1:
        yield from () if run in _STOP_CHARS else run
        return
    if "가" <= run[0] <= "힣":
        if _SYLLABLE_AND_PARTICLE.fullmatch(run):
            yield run[0]
        elif _ENDS_IN_PARTICLE.fullmatch(run):
            run = run[:-1]
    for first, second in pairwise(run):
        yield from _PAIR_TERMS[first + second]
    yield from _char_terms(run[-1])


_STEM_CYRILLIC = re.compile("[а-я]+")
_STEM_GREEK = re.compile("[α-ω]+")
_STEM_HINDI = re.compile("[\u0900-\u097f]+")
_STEM_ARABIC = re.compile("[\u0621-\u06d3]+")


def stem_of_script(word: str) -> str | None:
    """Return the stem of a folded word in a script that tells how to find it, else None."""
    if _STEM_CYRILLIC.fullmatch(word):
        return snowball("russian")(word)
    if _STEM_ARABIC.fullmatch(word):
        return _ARABIC_SUFFIX.sub("", _ARABIC_PREFIX.sub("", word))
    if _STEM_HINDI.fullmatch(word):
        return _HINDI_SUFFIX.sub("", word)
    # Snowball leaves the iota of some forms of a word and not of others.
    if _STEM_GREEK.fullmatch(word):
        return snowball("greek")(word).removesuffix("ι")
    return None


# Source: Larkey et al. 2007, light10, with one suffix taken off instead of any number.
_ARABIC_PREFIX = re.compile("^(?:(?:و?ال|[بكف]ال|لل)(?=..)|و(?=...))")
_ARABIC_SUFFIX = re.compile("(?<=..)(?:ها|ان|ات|ون|ين|يه|ه|ي)$")
# Endings of number and case alone: those of verbs and derivation tell words apart that should be.
_HINDI_SUFFIX = re.compile("(?<=..)(?:ियों|ियां|ियो|ाओं|ाएं|ुओं|ुएं|इयों|इयां|ों|ें|यों|ो|े|ी|ा|ि|ु|ू|ई)$")


@memoized(None)  # a stemmer keeps the last word it was given
def snowball(language: str) -> Callable[[str], str]:
    """Return Snowball's stemmer for a language."""
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(language, maxCacheSize=0).stemWord
    return stem


# Letters that are not a plain one and a mark, and how German, Danish, Norwegian and Swedish write
# theirs without.
_PLAIN = str.maketrans(
    {
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ł": "l",
        "ħ": "h",
        "ŧ": "t",
        "ı": "i",
        "ŋ": "n",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
    }
)
_IN_TWO_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})


def plain_forms(word: str) -> list[str]:
    """Return how a folded Latin word is typed without its accents.

    A word in another script has no such forms.
    """
    plain = without_marks(word.translate(_PLAIN))
    if not plain.isascii():
        return []
    spelled = without_marks(word.translate(_IN_TWO_LETTERS).translate(_PLAIN))
    if spelled == plain:
        return [plain]
    return [plain, spelled]


def without_marks(word: str) -> str:
    """Return a word without accents and other combining marks."""
    return "".join(
        char for char in unicodedata.normalize("NFD", word) if not unicodedata.combining(char)
    )
