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
_LONG_SOURCE_TERMS = 100
"""A shorter text shares at least one term with a source of so many, or names a fact of it."""
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
    r"sorry\b.{0,30}\bsomething i (?:can['’]t|cannot)|i(?:['’]m| am) (?:unable|not able|not "
    r"comfortable)\b",
    rf"i {_WILL_NOT} (?:help(?! but)|assist|do "
    r"(?:that|this)|provide|summ|comply|fulfil|create|answer|engage|discuss)",
    r"i (?:must|have to|need to) (?:respectfully )?decline\b|i (?:refuse to|(?:don['’]t|do not) "
    r"feel comfortable)\b",
    r"as an? (?:ai\b|(?:large )?language model\b|assistant,? i (?:can|am not))",
    r"(?:(?:that|this|it)(?:['’]s| is) )?not possible[.!]?\s*\Z",
    r"(?:this|your|the) (?:request|content|prompt|response|conversation)\b.{0,60}"
    r"\b(?:violat|block|flag|filter|reject).{0,60}\b(?:our|usage|content|community|safety)\b.{0,20}"
    r"(?:polic|guideline|system)",
    r"(?:es tut mir (?:sehr )?leid|tut mir leid|leider|entschuldigung)\b.{0,60}"
    r"\b(?:(?:kann|darf) ich|ich (?:kann|darf))\b.{0,80}\b(?:nicht|keine?)\b",
    r"ich (?:kann|darf) "
    r"(?:dabei|damit|diese\w*|das|dir|ihnen)\b.{0,60}\bnicht\b.{0,20}(?:helf|zusammenfass|"
    r"beantwort)",
    r"(?:(?:je suis |je )?désolée?|malheureusement)\b.{0,60}\bje (?:ne peux|ne suis|refuse)\b",
    r"je ne (?:peux|suis) pas .{0,40}(?:aider|résumer|répondre|traiter)",
    r"(?:lo siento|lamentablemente|disculpa)\b.{0,60}\bno (?:puedo|me es posible)\b",
    r"no puedo (?:ayudar|resumir|responder|procesar)",
    r"(?:desculpe|lamento|infelizmente|sinto muito)\b.{0,60}\bnão posso\b",
    r"(?:mi dispiace|spiacente|purtroppo)\b.{0,60}\bnon posso\b",
    r"(?:извините|простите|к сожалению)\b.{0,60}\bя не (?:могу|имею)\b|я не могу "
    r"(?:помочь|выполнить|ответить)",
    r"(?:вибачте|на жаль)\b.{0,60}\bне можу\b|(?:omlouvám|bohužel)\b.{0,60}\bnemohu\b",
    r"(?:przykro mi|niestety|przepraszam)\b.{0,60}\bnie mog|(?:valitettavasti|"
    r"anteeksi)\b.{0,60}\ben voi\b",
    r"(?:het spijt me|helaas|sorry|excuses)\b.{0,60}\bkan\b.{0,40}\bniet\b",
    r"(?:beklager|dessverre|desværre|undskyld|tyvärr|förlåt|ledsen)\b.{0,60}\b(?:ikke|inte)\b",
    r"(?:üzgünüm|maalesef|özür dilerim)\b.{0,80}(?:[ae]m[ae]m|[ae]m[ıi]yorum)",
    r"(?:عذر|آسف|للأسف|نأسف|أعتذر).{0,60}لا (?:يمكن|أستطيع|أقدر)",
    r"(?:क्षमा|माफ़?|खेद).{0,80}नहीं",
    r"(?:xin lỗi|rất tiếc).{0,60}không thể|(?:maaf).{0,60}tidak (?:bisa|dapat)",
    r"(?:很?抱歉|对不起|不好意思|很?遗憾).{0,20}(?:无法|不能)|我(?:无法|不能)(?:提供|协助|帮助|"
    r"总结|回答|处理)",
    r"(?:申し訳|恐れ入り|すみません).{0,40}(?:できません|できかねます|いたしかねます)",
    r"(?:죄송|미안).{0,60}(?:없습니다|어렵습니다)",
)
_YES = (
    r"(?:(?:ok(?:ay)?|sure|certainly|great|alright|of course|absolutely|understood|got it|gerne?|"
    r"natürlich|alles klar|gut|d['’]accord|bien sûr|claro|por supuesto|de acuerdo|好的?|当然|はい|"
    r"承知しました)"
    r"\b[\s,.!，。！、]*)?"
)
_THE_SUMMARY = r"(?:summar|recap|zusammenfass|résum|resum|总结|摘要|要約)"
_ONLY = r"[^.:!?。：！？\n]{0,120}[.:!?…。：！？\s]*\Z"
"""The rest of a text that is a single sentence."""
_ANNOUNCEMENTS = (
    # In any order: when, who, and the intention.
    r"(?:(?:now|next|first|then),? )(?:i(?:['’]ll| will|['’]m going to| am going to| need to| have "
    r"to| "
    r"must| should)|let me|let us|let['’]s)\b",
    r"i(?:['’]ll| will|['’]m| am|['’]m going to) (?:now|next|first|start|going to|about to)\b"
    rf"(?!.{{0,40}}{_THE_SUMMARY})",
    r"i(?:['’]ll| will| need to| have to)\b[^.!?\n]{0,120}\b(?:now|next|first)[.!…]",
    r"(?:let me|let['’]s) (?:now |first |start|check|look|run|read|see|try|open|deploy|begin|take|"
    r"find|"
    rf"search)(?!.{{0,40}}{_THE_SUMMARY})",
    rf"(?:i(?:['’]ll| will|['’]d be (?:happy|glad) to| would be (?:happy|glad) to| can)|let "
    rf"me)\b[^.:!?\n]*{_THE_SUMMARY}{_ONLY}",
    rf"(?:here(?:['’]s| is| are)|below is|hier ist|voici|aquí (?:está|tienes)|ecco)\b{_ONLY}",
    rf"(?:以下是|下面是|以下は|以下が){_ONLY}",
    rf"(?:the )?next step\b\s*(?::|is\b){_ONLY}|(?:nächster schritt|prochaine étape|siguiente "
    rf"paso)\s*:{_ONLY}",
    r"[a-z]+ing\b[^.!?\n]{0,80}(?:\bnow[.!…]+|\.\.\.|…)\s*\Z",
    r"(?:ich werde (?:jetzt|nun|als nächstes|zuerst)|lass(?:en sie)? (?:mich|"
    r"uns))\b(?!.{0,40}zusammenfass)",
    r"(?:jetzt|nun|zuerst|zunächst|als nächstes) (?!habe|hatte|bin|war)\w+ ich\b|"
    rf"ich (?!habe|hatte|bin|war)\w+ (?:jetzt|nun|zuerst|als nächstes)\b{_ONLY}",
    r"(?:(?:maintenant|d['’]abord|ensuite),? je (?!n?['’]?ai|suis)|je vais (?:maintenant|"
    r"d['’]abord)|"
    r"laissez-moi|laisse-moi|je vais\b(?!.{0,60}\b(?:vendredi|lundi|demain)))(?!.{0,40}résum)",
    rf"je (?:lance|vérifie|regarde|exécute|commence|démarre|consulte|lis|ouvre|cherche|"
    rf"teste)\b{_ONLY}",
    r"(?:ahora |primero |luego )?(?:voy a|vamos a|déjame|permíteme)\b(?!.{0,40}resum)",
    rf"(?:ahora|primero|luego|a continuación),? \w+[aei]ré\b{_ONLY}",
    r"(?:agora )?vou \w+r\b|(?:ora|adesso) (?:eseguo|controllo|verifico)|(?:сейчас|теперь) я "
    r"\w+ю\b",
    r"我(?:现在|接下来|马上)就?[要会来将去]|接下来[，,]?我们?[要会来将先]|(?:现在|首先|"
    r"下一步)[，,]?我们?(?:要|会|来|将|需要)",
    r"让我们?[先来](?:看|检查|运行|执行|读)",
    r"(?:これから|今から|次に|では|それでは|まず)[^。\n]{0,40}ます",
    r"(?:이제|지금|먼저)[^.\n]{0,40}겠습니다",
)
_PLANS = (
    rf"i(?:['’]ll| will) (?!not\b|be\b|have\b|.{{0,40}}{_THE_SUMMARY})",
    rf"(?:ich werde\b|je vais\b|voy a\b|我(?:将会|会先))(?!.{{0,40}}{_THE_SUMMARY})",
)
"""Beginnings of an announcement, unless it names a fact of the source."""
_ERRORS = (
    r"(?:(?:http|error|status)[\w/.: ]{0,12}?)?(?:[45]\d\d[ :-]{1,3})?(?:bad "
    r"request|unauthorized|forbidden"
    r"|internal server error|too many requests|service unavailable|bad gateway|gateway time-?out"
    r"|rate limit (?:exceeded|reached))[.!]?\s*(?:\Z|please (?:try|retry|wait))",
    r"(?:[\w.]+error: )?error code:? [45]\d\d\b|(?:http|error|status|fehler|erreur):? [45]\d\d"
    r"(?:[.!]?\s*\Z|: )",
    r"rate limit reached for \S+ in organization|upstream (?:connect|request) ",
    r"traceback \(most recent call last\)|(?:fatal: )?an? (?:internal|unexpected) error (?:has "
    r")?occurred[.!,]",
    r"<!doctype html|<html|<\?xml",
)
_FAILURES = (
    r"\btimed? ?out\b|\boverloaded\b|\btry again (?:later|in\b)|\bmaximum context length\b",
    r"\b(?:context|token) (?:length|limit|window)\b.{0,20}\bexceed|\bprocessing (?:your|the) "
    r"request\b",
    r"\b(?:invalid|incorrect|missing|expired) (?:api[ _-]?key|token|credentials)\b",
    r"\bquota (?:was |has been )?(?:exceeded|exhausted)|\bexceeded\b.{0,30}\bquota\b|"
    r"\binsufficient (?:quota|"
    r"credits|balance|funds)\b",
    r"\b(?:ECONN\w+|ETIMEDOUT|ENOTFOUND|EPIPE)\b|\bsocket hang up\b|\bconnection (?:refused|reset|"
    r"closed)\b",
    r"\A\W*(?:\w+\.)*\w*(?:Error|Exception): |\bsomething went wrong\b|\bno (?:response|output|"
    r"completion)\b",
    r"\bmodel\b.{0,40}\b(?:not found|does not exist)\b|\brate limit\b.{0,20}\b(?:exceeded|"
    r"reached)\b",
    r"\b(?:nicht verfügbar|indisponible|no disponible|zeitüberschreitung)\b|服务.{0,6}不可用|"
    r"请稍后再?试|"
    r"利用できません|後でもう一度",
)
"""Parts of an error's text. A summary that tells of such an error shares its other words with the "
"source."""
_MAX_FAILURE_CHARS = 300
_NOTHING = re.compile(
    r"\W*(?:null|undefined|none|nil|nan|n/?a|eof|error|fehler|erreur|\[object object\]|true|false|"
    r"ok(?:ay)?|yes|no|sure|certainly|empty|no (?:content|text|summary|answer))?\W*",
    re.IGNORECASE,
)
_FENCED = re.compile(r"\s*(?:```|~~~)[\w+-]*[^\S\n]*\n(.*?)\n?(?:```|~~~)\s*", re.DOTALL)
_CALLS = (
    r"<(?:tool_calls?|tool_use|function_calls?|function=|invoke|antml:)",
    r"\[TOOL_CALLS?\]|<\|(?:tool|python_tag|start)|(?:to=)?functions\.\w+|call:\w+\{",
    r"action:[^\n]*\n+\s*action input:|\$ \w[^\n]*\s*\Z|(?:bash|sh|zsh|cmd|powershell) -c\b",
    # A call alone: after its end there is no word.
    rf"[A-Za-z_][\w.]{{0,60}}\((?:(?!\)\s\w).){{0,{_MAX_CALL_CHARS}}}\)[;`\s]*\Z",
)
_CALL_KEYS = (
    {"name", "arguments"},
    {"name", "parameters"},
    {"name", "input"},
    {"name", "args"},
    {"tool", "args"},
    {"tool", "input"},
    {"tool", "arguments"},
    {"tool", "parameters"},
    {"action", "action_input"},
    {"function", "arguments"},
    {"function", "type"},
    {"function_call"},
    {"tool_name"},
    {"tool_calls"},
    {"tool_uses"},
)
_ERROR_KEYS = {"code", "detail", "error", "message", "param", "request_id", "status", "type"}


def _beginning(patterns: Collection[str]) -> re.Pattern[str]:
    return re.compile(rf"[^\w<\[]*(?:{'|'.join(patterns)})", re.IGNORECASE | re.DOTALL)


_REFUSAL = _beginning(_REFUSALS)
_ANNOUNCEMENT = _beginning([_YES + rf"(?:{'|'.join(_ANNOUNCEMENTS)})"])
_PLAN = _beginning([_YES + rf"(?:{'|'.join(_PLANS)})"])
_ERROR = _beginning(_ERRORS)
_FAILURE = re.compile("|".join(_FAILURES), re.IGNORECASE)
_CALL = _beginning(_CALLS)

_LISTED = re.compile(r"\s*(?:[-*•#|>]|\d{1,3}[.)])")
_AFTER_END = re.compile(r"[\s\"'`”’»」』)\]}*_|]*")
_OPEN_END = re.compile(
    r"(?:[,，、]|[(\[{（「]|\b(?:and|or|but|because|that|which|who|if|the|an|of|to|for|with|from|"
    r"by|into|"
    r"has|have|will|their|wants?|und|oder|aber|weil|dass|der|die|das|den|dem|ein|eine|einen|mit|"
    r"von|für|"
    r"zu|auf|et|ou|mais|que|qui|le|la|les|un|une|des|du|de|avec|pour|dans|pero|porque|los|las|una|"
    r"con|"
    r"para|por|del|или|и)|以及|并且|但是|或者|因为|を|が|は|に|と)\s*\Z",
    re.IGNORECASE,
)
_MIN_SENTENCE_WORDS = 9
"""So many words and more end with a sign, unless they are an entry of a list."""
_ENDINGS = ("ing", "ings", "ers", "ment", "ments", "ness", "able")
_LAST_WORD = re.compile(r"[^\W\d_]{3,30}\Z")


def check_answer(text: str, source: str, *, stop_reason: str = "", free: bool = False) -> None:
    """Raise InvalidArgumentError, with the fault, for a text that is no summary of a source.

    A refusal or an announcement before a text that says something of the source is no fault, and
    neither is a refusal that names a fact of it.
    free: whether the text may be in other words than its source, such as a translation.
    """
    if stop_reason.lower() in _DECLINED:
        raise InvalidArgumentError("it was declined or filtered")
    if _NOTHING.fullmatch(text):
        raise InvalidArgumentError("it was empty" if not text else "it says nothing")
    unwrapped = _unwrapped(text)
    if _CALL.match(unwrapped) or _is_json_of(unwrapped, _CALL_KEYS):
        raise InvalidArgumentError(
            "it was the text of a call; answer with the summary as plain text"
        )
    if _ERROR.match(text) or _is_json_error(unwrapped) or _is_failure(text, source):
        raise InvalidArgumentError("it was the text of an error")
    if _REFUSAL.match(text) and not (_names_of(text, source) or _goes_on(text, source)):
        raise InvalidArgumentError("it declined to summarise")
    is_plan = _PLAN.match(text) and not _names_of(text, source)
    if (is_plan or _ANNOUNCEMENT.match(text)) and not _goes_on(text, source):
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
    if not is_cut and not _LISTED.match(rest):
        is_cut = _breaks_a_word(rest, source) or (not stop_reason and _needs_an_end(rest))
    return text[:last].rstrip() if is_cut else text


def _needs_an_end(text: str) -> bool:
    """Return whether a text is one line that reads as a sentence, and has no sign at its end."""
    line = text.strip()
    if "\n" in line or ":" in line or not line[:1].isupper() or not line[-1:].isalpha():
        return False
    return len(line.split()) >= _MIN_SENTENCE_WORDS


def _breaks_a_word(text: str, source: str) -> bool:
    """Return whether a text ends in a part of a word of a source that has no such word.

    Another form of the same word, such as "test" for "testing", is a word.
    """
    found = _LAST_WORD.search(text)
    if not found:
        return False
    part = re.escape(found[0])
    if re.search(rf"\b{part}\b", source, re.IGNORECASE):
        return False
    longer = re.search(rf"\b{part}([^\W\d_]{{3,30}})", source)
    return longer is not None and longer[1] not in _ENDINGS


def _check_source(text: str, source: str) -> None:
    """Raise InvalidArgumentError for a text that says nothing of its source.

    A text in another language without facts of the source says nothing of it, too.
    """
    terms = set(analyze(text))
    of_source = set(analyze(source))
    shared = len(terms & of_source)
    if len(terms) >= _MIN_TERMS:
        is_foreign = shared < _MIN_SHARED * len(terms)
    else:
        is_foreign = not shared and len(of_source) >= _LONG_SOURCE_TERMS
    if is_foreign and not _names_of(text, source):
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


def _unwrapped(text: str) -> str:
    """Return the content of a text that is one block of code, any other text as it is."""
    fenced = _FENCED.fullmatch(text)
    return fenced[1] if fenced else text


def _is_failure(text: str, source: str) -> bool:
    """Return whether a short text tells of a failure that the source does not know."""
    if len(text) > _MAX_FAILURE_CHARS or not _FAILURE.search(text) or _names_of(text, source):
        return False
    terms = set(analyze(text))
    return 2 * len(terms.intersection(analyze(source))) < len(terms)


def _is_json_error(text: str) -> bool:
    return _is_json_of(text, ({"error"},), within=_ERROR_KEYS)


def _is_json_of(text: str, kinds: Collection[set[str]], *, within: Collection[str] = ()) -> bool:
    """Return whether a text is a JSON object, or a list of such, that has all keys of one kind."""
    bare = text.strip().strip("`").strip()
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
