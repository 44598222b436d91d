"""Faults of a model's answer that is to be a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from kaosmem.compaction.facts import facts_in
from kaosmem.errors import InvalidArgumentError
from kaosmem.language.analysis import analyze
from kaosmem.language.sentences import sentence_ends

_CUT = ("incomplete", "length", "max_output_tokens", "max_tokens", "model_length")
_DECLINED = ("blocklist", "content_filter", "prohibited_content", "recitation", "refusal", "safety")
"""Reasons, as providers call them, for which a model stops before its answer is complete."""

_MIN_TERMS = 12
_MIN_SHARED = 0.15
"""A text of so many terms shares this part of them with its source, or a fact.

A policy does not.
"""
_SAYS_TERMS, _SAYS_SHARED = 6, 0.3
"""So many terms, and this part of them, are of the source where a text says something of it."""
_MIN_FOREIGN = 3
"""Names that the source does not have, more than half of all, are a fault from this number on."""
_MAX_CALL_CHARS = 4_000

# Each pattern matches the beginning of a text. Verbs are listed where a summary in the first person
# could begin alike: "I cannot reach the host" is no refusal.
_WILL_NOT = r"(?:can['’]t|cannot|can not|won['’]t|will not)"
_REFUSALS = (
    r"(?:(?:i['’]m |i am )?(?:(?:very|so|really|truly) )?(?:sorry|afraid)|i apologi[sz]e|my "
    r"apologies|unfortunately)\b"
    rf".{{0,80}}\bi(?: {_WILL_NOT}|(?:['’]m| am) (?:unable|not able)| must decline| have to "
    r"decline)\b",
    r"i(?:['’]m| am) (?:unable|not able|not comfortable)\b",
    rf"i {_WILL_NOT} (?:help(?! but)|assist|do "
    r"(?:that|this)|provide|summ|comply|fulfil|create|answer|engage|discuss)",
    r"i (?:must|have to|need to) (?:respectfully )?decline\b|i (?:refuse to|(?:don['’]t|do not) "
    r"feel comfortable)\b",
    r"as an ai\b",
    r"(?:this|your|the) (?:request|content|prompt|response|conversation)\b.{0,60}"
    r"\b(?:violat|block|flag|filter|reject).{0,60}\b(?:our|usage|content|community|safety)\b.{0,20}"
    r"(?:polic|guideline|system)",
    r"(?:es tut mir (?:sehr )?leid|tut mir leid|leider|entschuldigung)\b.{0,60}"
    r"\b(?:(?:kann|darf) ich|ich (?:kann|darf))\b.{0,80}\b(?:nicht|keine?)\b",
    r"ich (?:kann|darf) "
    r"(?:dabei|damit|diese\w*|das|dir|ihnen)\b.{0,60}\bnicht\b.{0,20}(?:helf|zusammenfass|beantwort)",
    r"(?:(?:je suis |je )?désolée?|malheureusement)\b.{0,60}\bje (?:ne peux|ne suis|refuse)\b",
    r"je ne (?:peux|suis) pas .{0,40}(?:aider|résumer|répondre|traiter)",
    r"(?:lo siento|lamentablemente|disculpa)\b.{0,60}\bno (?:puedo|me es posible)\b",
    r"no puedo (?:ayudar|resumir|responder|procesar)",
    r"(?:desculpe|lamento|infelizmente|sinto muito)\b.{0,60}\bnão posso\b",
    r"(?:mi dispiace|spiacente|purtroppo)\b.{0,60}\bnon posso\b",
    r"(?:извините|простите|к сожалению)\b.{0,60}\bя не (?:могу|имею)\b|я не могу "
    r"(?:помочь|выполнить|ответить)",
    r"(?:很?抱歉|对不起|不好意思|很?遗憾).{0,20}(?:无法|不能)|我(?:无法|不能)(?:提供|协助|帮助|总结|回答|处理)",
    r"(?:申し訳|恐れ入り|すみません).{0,40}(?:できません|できかねます|いたしかねます)",
    r"(?:죄송|미안).{0,60}(?:없습니다|어렵습니다)",
)
_ANNOUNCEMENTS = (
    r"(?:(?:ok(?:ay)?|sure|certainly|great|now|next|first)\b[,.!]? )?"
    r"(?:i(?:['’]ll| will) (?:now|next|first|start)\b|i(?:['’]m| am) (?:now )?going to\b"
    r"|let me (?:now |first |start|check|look|run|read|see)|let['’]s "
    r"(?:now|start|run)\b)(?!.{0,40}(?:summar|recap))",
    r"(?:ich werde (?:jetzt|nun|als nächstes|zuerst)|lass mich)\b(?!.{0,40}zusammenfass)",
    r"(?:je vais (?:maintenant|d['’]abord)|laissez-moi)\b(?!.{0,40}résum)",
    r"(?:ahora )?(?:voy a|déjame)\b(?!.{0,40}resum)",
    r"(?:好的?[，,。！ ]*)?(?:我(?:现在|接下来|马上)就?[要会来将去]|接下来我[要会来将])",
    r"(?:好的?[，,。！ ]*)?让我[先来](?:看|检查|运行|执行|读)",
    r"(?:これから|今から|次に)[^。\n]{0,40}ます",
)
_ERRORS = (
    r"(?:(?:http|error|status)[\w/.: ]{0,12}?)?(?:[45]\d\d[ :-]{1,3})?(?:bad "
    r"request|unauthorized|forbidden"
    r"|internal server error|too many requests|service unavailable|bad gateway|gateway time-?out"
    r"|rate limit (?:exceeded|reached))[.!]?\s*(?:\Z|please (?:try|retry|wait))",
    r"error code:? [45]\d\d\b|(?:http|error|status):? [45]\d\d[.!]?\s*\Z",
    r"rate limit reached for \S+ in organization|upstream (?:connect|request) ",
    r"traceback \(most recent call last\)|(?:fatal: )?an? (?:internal|unexpected) error (?:has "
    r")?occurred[.!,]",
    r"<!doctype html|<html|<\?xml",
)
_CALLS = (
    r"<(?:tool_calls?|tool_use|function_calls?|function=|invoke|antml:)",
    r"\[TOOL_CALLS?\]|<\|(?:tool|python_tag|start)|(?:to=)?functions\.\w+",
    # A call alone: after its end there is no word.
    rf"[A-Za-z_][\w.]{{0,60}}\((?:(?!\)\s\w).){{0,{_MAX_CALL_CHARS}}}\)[;`\s]*\Z",
)
_CALL_KEYS = (
    {"name", "arguments"},
    {"name", "parameters"},
    {"name", "input"},
    {"function", "type"},
    {"tool_calls"},
)
_ERROR_KEYS = {"code", "detail", "error", "message", "param", "request_id", "status", "type"}


def _beginning(patterns: Collection[str]) -> re.Pattern[str]:
    return re.compile(rf"[^\w<\[]*(?:{'|'.join(patterns)})", re.IGNORECASE | re.DOTALL)


_REFUSAL, _ANNOUNCEMENT = _beginning(_REFUSALS), _beginning(_ANNOUNCEMENTS)
_ERROR, _CALL = _beginning(_ERRORS), _beginning(_CALLS)

_LISTED = re.compile(r"\s*(?:[-*•#|>]|\d{1,3}[.)])")
_AFTER_END = re.compile(r"[\s\"'`”’»」』)\]}*_|]*")
_OPEN_END = re.compile(
    r"(?:[,，、]|[(\[{（「]|\b(?:and|or|but|because|the|und|oder|aber|et|ou|mais|pero|или|и)|以及|并且|但是|或者|を)\s*\Z",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r"[^\W\d_]{3,30}\Z")


def check_answer(text: str, source: str, *, stop_reason: str = "", free: bool = False) -> None:
    """Raise InvalidArgumentError, with the fault, for a text that is no summary of a source.

    A refusal or an announcement before a text that says something of the source is no fault, and
    neither is a refusal that names a fact of it.
    free: whether the text may be in other words than its source, such as a translation.
    """
    if stop_reason.lower() in _DECLINED:
        raise InvalidArgumentError("it was declined or filtered")
    if not text:
        raise InvalidArgumentError("it was empty")
    if _CALL.match(text) or _is_json_of(text, _CALL_KEYS):
        raise InvalidArgumentError(
            "it was the text of a call; answer with the summary as plain text"
        )
    if _ERROR.match(text) or _is_json_error(text):
        raise InvalidArgumentError("it was the text of an error")
    if _REFUSAL.match(text) and not (_names_of(text, source) or _goes_on(text, source)):
        raise InvalidArgumentError("it declined to summarise")
    if _ANNOUNCEMENT.match(text) and not _goes_on(text, source):
        raise InvalidArgumentError("it announced what comes next; write the summary itself")
    if not free:
        _check_source(text, source)


def whole_part(text: str, source: str, *, stop_reason: str = "") -> str:
    """Return a text up to its last whole sentence or line: the text itself if it ends with one.

    A model that stopped at its limit has a whole sentence only where a sentence ends. Any other may
    end as it likes, but not with a comma, an open bracket, a conjunction or a part of a word.

    >>> whole_part("They met. They agreed on the", "")
    'They met.'
    """
    ends = sentence_ends(text)
    last = ends[-1] if ends else 0
    if _AFTER_END.fullmatch(text, last):
        return text
    rest = text[last:]
    is_cut = (
        stop_reason.lower() in _CUT or _OPEN_END.search(rest) or rest.count("(") > rest.count(")")
    )
    if is_cut or (last and not _LISTED.match(rest) and _breaks_a_word(rest, source)):
        return text[:last].rstrip()
    return text


def _breaks_a_word(text: str, source: str) -> bool:
    """Return whether a text ends in a part of a word of a source that has no such word."""
    found = _LAST_WORD.search(text)
    if not found:
        return False
    part = re.escape(found[0])
    is_word = re.search(rf"\b{part}\b", source, re.IGNORECASE)
    return not is_word and re.search(rf"\b{part}[^\W\d_]{{3}}", source) is not None


def _check_source(text: str, source: str) -> None:
    """Raise InvalidArgumentError for a text that says nothing of its source, or is in another language."""
    terms = set(analyze(text))
    if len(terms) >= _MIN_TERMS:
        shared = len(terms.intersection(analyze(source)))
        if shared < _MIN_SHARED * len(terms) and not _names_of(text, source):
            raise InvalidArgumentError(
                f"{shared} of its {len(terms)} words are of the conversation; keep to what was "
                "said, in its language"
            )
    folded = source.casefold()
    named = {fact.text.casefold() for fact in facts_in(text) if fact.rank <= 1}
    foreign = [
        name
        for name in named
        if not any(part in folded for part in (name, *re.findall(r"\w{3,}", name)))
    ]
    if len(foreign) >= _MIN_FOREIGN and 2 * len(foreign) > len(named):
        raise InvalidArgumentError(
            f"{len(foreign)} names, paths or addresses in it are not in the conversation"
        )


def _names_of(text: str, source: str) -> bool:
    """Return whether a text names a fact of its source."""
    return any(fact.rank <= 2 and fact.text in source for fact in facts_in(text))


def _goes_on(text: str, source: str) -> bool:
    """Return whether a text says something of its source after its first sentence or line."""
    ends = sentence_ends(text)
    terms = set(analyze(text[ends[0] :])) if ends else set()
    if len(terms) < _SAYS_TERMS:
        return False
    return len(terms.intersection(analyze(source))) >= max(_SAYS_TERMS, _SAYS_SHARED * len(terms))


def _is_json_error(text: str) -> bool:
    return _is_json_of(text, ({"error"},), within=_ERROR_KEYS)


def _is_json_of(text: str, kinds: Collection[set[str]], *, within: Collection[str] = ()) -> bool:
    """Return whether a text is a JSON object, or a list of such, that has all keys of one kind."""
    bare = text.strip().removeprefix("```json").strip("`").strip()
    if bare[:1] not in ("{", "["):
        return False
    try:
        said = json.loads(bare)
    except (ValueError, RecursionError):
        return False
    if isinstance(said, list):
        said = said[0] if said else None
    if not isinstance(said, dict) or (within and not said.keys() <= set(within)):
        return False
    return any(keys <= said.keys() for keys in kinds)
