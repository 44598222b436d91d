"""Patterns of standing rules by language, and of sentences that only look like rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_NOT_A_REQUEST = (
    r"(?!been|being|be\b|a\b|an\b|the\b|so\b|too\b|in\b|on\b|up\b|here|there|happy|glad|good|great|"
    r"nice|fun|mind|had|"
    r"heard|saw|seen|knew|got|gave|thought|really|even|again|ready|loved?\b|my\b|your\b|his\b|"
    r"her\b|"
    r"their\b|our\b|"
    r"say\b|know\b|give "
    r"up|stop\b|feel|and\b|or\b|for\b|to\b|get\b|wanted|is\b|was\b|knows?\b|more\b|"
    r"less\b|"
    r"[a-z]+(?:ing|ed)\b)[a-z]"
)
_NOT_A_BAN = (
    r"(?!worry|forget|give|know|think|be\b|let\b|miss|sweat|hesitate|stress|feel|lose|stop|want|"
    r"need|"
    r"have|see|like|"
    r"understand|remember|get|you|we\b|they\b|i\b|mention "
    r"it|mind|care|believe|take|sell|panic|tell|"
    r"hate|ask|even|just|"
    r"waste|delay|wait|muck|make me|make it)"
    r"[a-z]"
)
_LEAD = (
    r"^(?:[-*•]\s*|\d+[.)]\s*)?(?:(?:and|but|also|so|then|ok(?:ay)?|please|again|first(?:ly)?|"
    r"second(?:ly)?|finally|"
    r"additionally|remember|note|rule|important)\b[,:]?\s+){0,3}"
)

PLAIN_CUES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "en": (
            rf"{_LEAD}(?:always|never) {_NOT_A_REQUEST}",
            rf"{_LEAD}(?:do not|don['’]t) {_NOT_A_BAN}",
            r"\b(?:must|should|shall|have to|need to|please|remember to|sure (?:to|you|"
            r"that you)) (?:always|never)\b",
            r"\b(?:want|need|like|expect|ask|prefer) (?:that )?you (?:to )?(?:always|never)\b",
            r"\b(?:i['’]d like|i would like|i want|i need) you to "
            r"(?:start|stop|keep|avoid|use|follow|"
            r"end|begin|"
            r"include|add|import|continue|get into the habit)\b",
            r"\bfrom (?:now|here|this point|today) on(?:wards?)?\b|\bhenceforth\b|"
            r"\bunder no circumstances\b",
            r"(?:^|[,;:] |\b(?:and|so|but) )(?:going|moving) forward,? (?!i(?:['’]m| am| think| "
            r"hope)|"
            r"we['’]re|with\b)",
            r"(?<!\bto )\b(?:going|moving) forward[.!]?$",
            r"(?:^|[,;:] )in (?:the )?future,? (?:please|always|never|do|don['’]t|use|you)\b",
            r"\bplease,? (?:use|avoid|stick to|refrain|only|stop)\b",
            rf"\bplease,? (?:do not|don['’]t) {_NOT_A_BAN}",
            r"\b(?:don['’]t|do not|never) ever (?!been|had|seen|heard)",
            r"\bwhen(?:ever)? i ask\b",
            r"^(?:whenever|every time|each time) you\b.*, (?:please|always|never|use|add|include|"
            r"i['’]d|i want)\b",
        ),
        "de": (
            r"\bab (?:jetzt|sofort)\b|\bvon (?:jetzt|nun) an\b|\bin zukunft\b|\b(?:zu)?künftig\b",
            r"\bbitte (?:verwende|benutze|nutze|immer|nie|niemals|keine?)\w*",
            r"^(?:bitte )?\w+(?:e|en sie)? (?:bitte )?(?:immer|niemals|nie)\b(?! "
            r"(?:gern|wieder|da|so)\b)",
            r"^(?:immer|niemals|nie) (?:\w+ ){0,6}\w+en[.!]?$",
        ),
        "fr": (
            r"\b(?:dorénavant|désormais)\b|\bà l['’]avenir\b|\bà partir de maintenant\b",
            r"^(?:s['’]il (?:te|vous) pla[iî]t,? )?\w{2,}(?:e|s|z) toujours\b|^n(?:e |['’])\w+ "
            r"jamais\b",
            r"\bmerci de (?:toujours|ne (?:jamais|pas))\b|\bs['’]il (?:te|"
            r"vous) pla[iî]t,? (?:(?:n['’])?utilis|évite)",
        ),
        "es": (
            r"\b(?:de|desde|a partir de) ahora(?: en adelante)?\b|\ben (?:adelante|lo sucesivo)\b",
            r"^(?:por favor,? )?(?:siempre|nunca|jamás) "
            r"(?!me\b|te\b|se\b|he\b|es\b|lo\b|la\b|fue|hay|"
            r"que\b|estoy)\w+",
            r"\bpor favor,? (?:usa|use|utiliza|utilice|evita|evite|no)\b",
        ),
        "ru": (
            r"\b(?:впредь|отныне)\b|\bс этого момента\b|\bв дальнейшем\b|\bни в коем случае\b",
            r"\b(?:всегда|никогда не) \w+(?:й|йте|и|ите|ь|ьте)\b|^\w+(?:й|йте|и|ите|ь|ьте) "
            r"всегда\b",
            r"\bпожалуйста,? (?:использу|не \w+(?:й|и|ь)(?:те)?\b)",
        ),
        "el": (
            r"\bαπό (?:εδώ|δω|τώρα) και (?:πέρα|εμπρός|στο εξής)\b|\bστο εξής\b",
            r"^(?:παρακαλώ,? )?(?:να )?(?:πάντα|ποτέ μην?)\b|^\w+ πάντα\b|^μην? \w+ ποτέ\b",
            r"\bπαρακαλώ,? (?:χρησιμοποί|μην?\b)",
        ),
        "ar": (
            r"من الآن فصاعد|ابتداء\w* من الآن|بعد الآن",
            r"^(?:\w+ ){0,2}دائم|^لا ت\w+ (?:\w+ ){0,6}أبد|(?:يجب|الرجاء|رجاء|من "
            r"فضلك).*(?:دائم|أبد)",
            r"(?:الرجاء|رجاءً?|من فضلك)،? (?:استخد|لا ت|عدم)",
        ),
        "hi": (
            r"(?:अब|आगे|आज) से",
            r"हमेशा .*(?:करें|करो|करना|कीजिए|रखें|रखो|दें|दो|लिखें|लिखो)",
            r"कभी (?:भी )?.*(?:मत|न|ना) ",
            r"कृपया .*(?:उपयोग|इस्तेमाल|प्रयोग)",
        ),
    }
)
"""Patterns that make a sentence a rule in any text, documents included.

Ranking looks for these alone.
"""

# Ranking looks for the patterns above alone. In a user's own message those below count, too. They
# are built from classes of words: verbs of an assistant's work, which an imperative begins with;
# words that make a request hold for each case; and the beginnings of a condition.
_NUMBER = r"(?:\s*(?:no\.?|nr\.?|n°|núm\.?|#)?\s*\d+)?"
_COLON = rf"{_NUMBER}\s*[:：–—]\s*"

_EN_DO = (
    r"(?:answer|reply|respond|write|speak|talk|use|keep|stay|stick|follow|treat|prefer|format|"
    r"spell|round|quote|cite|show|state|mention|label|mark|name|document|ask|check|confirm|verify|"
    r"tell|warn|notify|inform|let me know|consult|add|include|put|start|begin|end|finish|run|"
    r"test|commit|push|merge|deploy|install|delete|remove|change|modify|edit|create|open|close|"
    r"save|store|log|send|share|publish|report|give|provide|list|explain|summari[sz]e|translate|"
    r"address|call|refer|sign|wrap|return|limit|restrict|encrypt|back up|take|make|stop|read|"
    r"update|review|wait|prefix|indent|sort|group|date|leave|work|respect|assume|handle|say|be|"
    r"escape|validate|pin|tag|squash|rebase|convert|print|measure|double-check|copy|move|rename|"
    r"order|buy|pay|book|spend|contact|e-?mail|message|reveal|disclose|access|touch|upload|"
    r"download|approve|pass|set|prepare|propose|point out|repeat|flag|drop|skip|shorten|do(?! not)|"
    r"pick|choose|select|protect|preserve|hide|mask|redact|anonymi[sz]e|replace|remind|justify|"
    r"clean|restart|accept|reject|decline|ignore|trust|insert|describe|compare|split|capitali[sz]e|"
    r"route|schedule|charge|refund|release|estimate|draft|reference|link|comment|lint|build|"
    r"obtain|seek|submit|attach|express|apply|maintain|assign|define|declare|import|expose)\b"
)
_EN_WORK = (
    r"(?:use|push|deploy|commit|merge|share|send|publish|release|store|log|write|test|sign|ship|"
    r"disclose|quote|cite|answer|accept|pay|refund|install|edit|touch|delete|change|review)\b"
)
_EN_EACH = (
    r"\b(?:always|never|every|each|only|unless|whenever|at all times|no matter|instead of|"
    r"rather than|over|(?:in|for|before|after|on|with) (?:all|any)|until i|"
    r"before (?:you|\w+ing|a|the)|after (?:you|\w+ing)|"
    r"without (?:my|asking|prior|explicit|written|approval|permission|exception|consulting|"
    r"telling|checking|confirm\w*|a (?:test|review|reason|source|ticket)))\b"
)
# An imperative with any verb: the first word is no other part of speech, and an object follows.
_EN_ANY = (
    r"(?!(?:all|any|both|each|every|no|not|only|what|which|who|half|such|like|with|from|for|to|at|"
    r"by|"
    r"of|as|and|but|or|so|then|than|that|this|when|while|since|until|though|not|yes|just|even|"
    r"never|"
    r"always|once|twice|here|there|we|you|he|she|it|they|i|my|your|our|out|over|under|about|into|"
    r"is|are|was|were|did|has|have|had|can|will|may|must|thank|let|give|god)\b)"
    r"(?![a-z]+(?:(?<!s)s|ed|ing|ly|tion|ness|ment)\b)[a-z-]{3,}(?: (?:up|down|out|off|in|on|"
    r"back))? "
    r"(?=(?:the|all|every|each|any|no|your|our|my|their|its?|them|both|these|those|nothing|"
    r"everything|"
    r"before|[a-z]+s)\b)"
)
_EN_STYLE = (
    r"(?:answer|reply|respond|write|speak|talk|format|spell|state|give|show|express)\b"
    r"(?: \w+){0,4} (?:in|with|as) (?!the\b|this\b|that\b|my\b|a\b|an\b|mind\b|it\b|me\b|us\b)\w+"
)
_EN_PERSON = r"(?:you|assistants?|agents?|nobody|no one|everyone|everybody)"
_EN_IF = r"(?:when(?:ever)?|if|before|after|once|unless|(?:every|each|any) time|as soon as|in case)"

_DE_DO = (
    r"(?:antwort|schreib|nutz|verwend|benutz|frag|zeig|nenn|gib|nimm|halt|lass|mach|prüf|lösch|"
    r"änder|speicher|schick|send|ruf|sprich|sprech|red|bleib|füg|erwähn|zitier|rund|test|"
    r"dokumentier|formatier|begründ|bestätig|acht|stell|sorg|vermeid|meld|informier|leg|setz|"
    r"fass|erklär|beginn|fang|hör|duz|siez|lies|les|berühr|trag|teil|veröffentlich|kauf|bestell|"
    r"start|installier|committ?|push|merg|deploy|übersetz|verschlüssel|führ|wart|arbeit|"
    r"behandel|behandl|geh|geb|nehm|sag|warn|kürz|beschränk|ersetz|öffn|schließ|erstell|kopier|"
    r"verschieb|benenn|markier|kennzeichn|verlink|sicher|überschreib|erfind|verrat|verschick|"
    r"kontaktier|beschreib|bezeichn|stopp|befolg|folg|zahl|buch|hol|weis|geb|bitt|rühr|greif|"
    r"unterschreib|rechn|betritt|verweis|rat|nenne?|versend|misch|änd|verzicht|beschränk|begrenz|"
    r"bevorzug|wähl|nimm|pass|überprüf|kontrollier|ergänz|hinterleg|notier|protokollier|"
    r"anonymisier|"
    r"kommentier|streich|entfern|verlass|vertrau|ignorier|lehn|akzeptier|erstatt|such|heb|hebe)"
    r"e?(?:n sie)?\b"
)
_DE_EACH = (
    r"\b(?:immer|stets|nie|niemals|jede[mnrs]?|jeweils|nur|ausschließlich|grundsätzlich|sobald|"
    r"bevor|statt|anstatt|nichts|kein\w*|nicht|niemand\w*|höchstens|mindestens|"
    r"ohne (?:\w+ ){0,2}(?:rück\w+|freigabe|erlaubnis|zustimmung|genehmigung|absprache|ausnahme|"
    r"prüfung|okay|ok|wissen|fragen|grund|test))\b"
)
_DE_WORK = r"\w+(?:en|eln|ern)(?: werden)?[.!]?$"
_DE_ANY = (
    r"(?!(?:alle|beide|danke|diese|eine|ende|ganze|gerne?|heute|ihre|jede|keine|leute|manche|meine|"
    r"ohne|"
    r"schade|seine|sie|solche|unsere|viele|wenige|welche|kunde|bitte|habe|hätte|hatte|wurde|wäre|"
    r"könnte|"
    r"frage|sache|seite|woche)\b)\w{3,}e(?:n sie)? "
    r"(?=(?:die|den|das|dein\w*|alle\w*|jede\w*|ein\w*|kein\w*|bitte|mich|uns|dir|dich|zu|in|vor|"
    r"nach|bei|"
    r"(?-i:[A-ZÄÖÜ])\w+)\b)"
)
_DE_NOUN = r"(?-i:[A-ZÄÖÜ])[\w-]+"

_FR_DO = (
    r"(?:répond|écri|utilis|emploi|employ|parl|gard|rest|sui|respect|trait|préfèr|préfér|format|"
    r"arrondi|cit|montr|indiqu|mentionn|not|nomm|document|demand|vérifi|confirm|prévien|préven|"
    r"averti|inform|consult|ajout|inclu|met|commenc|termin|fini|lanc|exécut|test|pouss|fusionn|"
    r"déploi|déploy|install|supprim|effac|chang|modifi|cré|ouvr|ferm|enregistr|envoi|envoy|"
    r"partag|publi|signal|donn|fourni|list|expliqu|résum|tradui|adress|appell|appel|sign|limit|"
    r"chiffr|sauvegard|fai|fait|prend|pren|soi|soy|arrêt|cess|évit|li|attend|laiss|travaill|"
    r"considèr|di|dit|converti|comment|vouvoi|vouvoy|tutoi|tutoy|veill|assur|tien|ten|touch|"
    r"justifi|précis|achèt|command|pay|pai|renvoi|rédig|propos|rappel|rappell|obtien|obten|relis|"
    r"protèg|masqu|anonymis|remplac|class|numérot|choisi|ignor|refus|accept|rembours|conserv|"
    r"souligne?|évit|privilégi|revoi|revoy|stock|archiv|inscri|nettoi|nettoy)"
    r"(?:e|es|s|ds|ez|ts|sez|vez|sse|ssez)?(?:[- ](?:moi|toi|vous|le|la|les|nous))*\b"
)
_FR_ANY = (
    r"(?!(?:presque|même|chose|toutes?|tous|chaque|les|des|nous|vous|personne|sans|dans|après|mais|"
    r"plus|"
    r"moins|jamais|toujours|souvent|quelques|parfois|puis|depuis|alors|quelle|elles?|notre|votre|"
    r"cette|"
    r"entre|chez|très|trois|autre|autres|comme|entre|contre|pas|ils|ses|mes|tes|une|sous|vers)\b)"
    r"\w{3,}(?:e|s|z)(?:-\w+)* (?=le\b|la\b|les\b|l['’]\w+|une?\b|des\b|chaque|tou\w+|aux?\b|à\b|"
    r"tes\b|nos\b|ton\b|ta\b)"
)
_FR_EACH = (
    r"\b(?:toujours|jamais|chaque|uniquement|seulement|exclusivement|systématiquement|sauf|"
    r"à moins|en tou(?:tes?|t) |dans tous|plutôt que|au lieu d|avant (?:de|d['’]|chaque|toute?)|"
    r"après (?:chaque|toute?)|"
    r"(?:quand|lorsque|dès que|si) (?:tu|vous|je)|sans (?:me|m['’]|mon|demander|accord|"
    r"autorisation|validation|permission|exception|raison|prévenir))"
)

_ES_CLITIC = r"(?:me|te|se|nos|lo|la|los|las|le|les)?(?:lo|la|los|las)?\b"
_ES_DO = (
    r"(?:us|utiliz|emple|respond|contest|escrib|habl|mant[eé]n|manteng|qu[eé]d|sig|respet|trat|"
    r"prefier|redonde|cit|muestr|muéstr|enseñ|indic|indiqu|mencion|menciónen|nombr|document|"
    r"pregunt|pregúnt|verific|verifiqu|comprueb|compruéb|confirm|confírm|avis|avís|advierte|"
    r"inform|infórm|consult|consúlt|añad|agreg|incluy|pon|pong|empiez|empiec|comienz|termin|"
    r"acab|ejecut|prueb|sub|fusion|despliegu|instal|borr|elimin|cambi|modific|modifiqu|cre|abr|"
    r"cierr|guard|guárd|envi|enví|manda|compart|public|publiqu|d|dé|proporcion|list|explic|"
    r"expliqu|resum|traduc|dirij|dirígete|llam|llám|firm|limit|cifr|haz|hag|tom|sé|sea|par|dej|"
    r"evit|le|lea|esper|trabaj|consider|di|dig|conviert|coment|tute|asegúr|procur|ten|teng|toc|"
    r"justific|compr|pag|pid|revis|deten|detén)(?:a|e|an|en|n)?"
    rf"{_ES_CLITIC}"
)
_ES_ANY = (
    r"(?!(?:casa|cosa|nada|toda|todas|cada|una|esta|ella|para|hasta|hacia|donde|entre|sobre|desde|"
    r"antes|"
    r"este|ese|que|porque|aunque|siempre|nunca|parece|llueve|llega|viene|sale|duerme|tiene|hace|"
    r"dice|"
    r"está|pasa|falta|falla|quiere|puede|debe|gente|parte|noche|tarde|semana|madre|padre)\b)"
    r"[a-zñáéíóú]{3,}(?:a|e|á|é|én|ón|í)(?:me|lo|la|los|las|les|le|nos)? "
    r"(?=(?:el|la|los|las|cada|tod[oa]s?|cualquier|dos|siempre|mis?|tus?|sus?|nuestr[oa]s?)\b)"
)
_ES_EACH = (
    r"\b(?:siempre|nunca|jamás|cada|solo|sólo|solamente|únicamente|exclusivamente|salvo|excepto|"
    r"a menos|en todo momento|en todos|en todas|en vez de|en lugar de|"
    r"antes de|después de cada|"
    r"(?:cuando|si) (?!puedes|quieres|tienes|vienes|llegas)(?:me |te |lo )?\w+s\b|"
    r"sin (?:que|preguntar\w*|consultar\w*|avisar\w*|mi|permiso|aprobación|autorización|"
    r"excepción))\b"
)

_ZH_DO = (
    r"(?:用|使用|回答|回复|写|说|问|检查|确认|保持|保留|注明|标注|列出|给|发|通知|告诉|运行|测试|"
    r"提交|备份|更新|记录|加|附|称呼|叫|停|先|翻译|解释|总结|以)"
)
_ZH_EACH = r"(?:每次|每当|每个|每条|每份|每一|所有|任何|一切|凡是?|一律|始终|总是|一直|永远|全部|统一|务必|必须)"
_JA_DO = (
    r"(?:ください|下さい|こと|ように(?:して)?|なさい|お願いします|頼みます|してね|しろ|せよ|くれ)"
    r"[。.!！]?$"
)

SPOKEN_CUES: Mapping[str, Sequence[str]] = {
    "en": (
        rf"^(?:[\w-]+ ){{0,2}}(?:rules?|polic(?:y|ies)|constraints?|guidelines?|restrictions?|"
        rf"conventions?|standing (?:order|instruction)s?|requirements?|remember){_COLON}\S+ \S",
        r"^(?:important|attention|warning|note|caution|critical|remember|reminder)\s*[:!]\s+.*"
        r"\b(?:must|never|always|do not|don['’]t|only|no|may not|not allowed|avoid|keep|stop)\b",
        rf"^{_EN_PERSON} (?:(?:must|shall|may|should)(?:n['’]t)?|can|are|will) "
        r"(?:not|never|only|always)\b(?! to be\b)",
        rf"^{_EN_PERSON} (?:(?:must|should)n['’]t|(?:are|['’]re) (?:not|never|only) (?:to|allowed)|"
        r"aren['’]t (?:to|allowed))\b",
        rf"^you (?:must|shall|cannot|can['’]t|have to|need to|may only|are to|should) "
        rf"(?:also |first )?{_EN_DO}(?! (?:tired|exhausted|joking|kidding|proud|sure|serious|new|"
        r"right|wrong|mad|hungry|happy|sad|careful|crazy|thrilled|starving|freezing))",
        r"^you (?:may|can)\b.*\bbut (?:\w+ ){0,3}(?:not|never|nothing|only|no)\b",
        rf"^{_EN_PERSON} (?:must|have to|need to)\b.*\b(?:every|each|before|whenever)\b",
        r"^(?:all|every|each|any|no)\b.*\b(?:must|shall|should|needs?|has to|have to|may|is to|"
        r"are to|goes?|starts?|ends?|gets?|requires?)\b",
        r"^(?!(?:this|that|these|those|yes|his|hers|its|sometimes|perhaps|the|a|an|some|many|most|"
        r"few|both|two|three)\b)(?:[\w-]+ ){0,2}[\w-]+s (?:\w+ ){0,3}"
        r"(?:must|should|shall|need|require|have to|may (?:only|not|never)|are to|stay|get|go|"
        r"belong|(?:are|is) (?:always|never|only)|always|never)\b",
        r"^(?:only|nobody (?:except|but)|no one (?:except|but)) (?-i:[A-Z])\w+ .*\b(?:can|may|is "
        r"allowed|are allowed|should|must)\b|^any [\w -]+\b(?:requires?|needs?|must|has to)\b",
        r"\b(?:on no account|in no case|until further notice|effective immediately|by default|"
        r"as of (?:now|today|tomorrow|monday)|starting (?:now|today|tomorrow|monday)|"
        r"(?:with|without|before|get|need|needs|have) my (?:prior |explicit |written "
        r")?(?:permission|"
        r"approval|ok|okay|consent|sign-?off|go-ahead))\b",
        r"^our (?:policy|rule|convention|standard) (?:is|says|requires)\b|^let me (?:approve|"
        r"review|"
        r"check|see|confirm)\b.*\bbefore\b|^it['’]?s? (?:is )?(?:strictly )?(?:forbidden|"
        r"prohibited|"
        r"not (?:allowed|permitted))\b",
        rf"^(?:for|with|on|in|at|to|after|before) (?:each|every|all|any)\b[^,]*, {_EN_DO}",
        r"^(?:limit|restrict|confine) (?:yourself|your)\b|^(?:stick|keep|adhere) to (?:the|our|"
        r"my)\b|"
        r"^(?:address|call|refer to) (?:the |our |all |every )?(?:customers?|users?|clients?|"
        r"team)\b",
        r"^(?:the|a|an|our|this) .*\b(?:must|may|should|shall|can) (?:not|never|always|only|"
        r"remain|stay)\b",
        rf"^{_EN_DO}.*{_EN_EACH}",
        rf"^{_EN_STYLE}",
        rf"^you (?:will|shall) (?:always |only )?{_EN_DO}|^you [a-z]+ (?:nothing|only|nobody)\b|"
        r"\b(?:stays?|remains?|kept) (?:untouched|private|confidential|inside|secret|internal|"
        r"intact|"
        r"unchanged|out of)\b|\bha(?:s|ve) no (?:place|business) in\b|\b(?:through|via|past) "
        r"me[.!]?$|"
        r"\bnot wanted\b|^i (?:tolerate|accept|allow|permit) (?:no|neither)\b|^ask first\b",
        rf"^[\w -]+\bnever (?:leaves?|goes?|gets?|appears?|belongs?)\b|^(?:except|apart|other "
        rf"than)\b[^,]*, no\b|"
        rf"^whatever\b[^,]*, {_EN_DO}|^get \w+.* (?:each|every)\b|^(?:log|do|change|delete|send|"
        rf"share|store|say) "
        r"nothing\b",
        rf"^{_EN_ANY}.*\b(?:every|each|unless|whenever|at all times|until i|before (?:you|\w+ing|"
        rf"every|"
        rf"each|any)|after (?:every|each|any)|without (?:my|asking|exception)|no matter)\b",
        r"^(?:when|if|once|before|after|whenever|as soon as) (?:you|a|an|any|some|there|"
        r"in)\b[^,]*, "
        r"(?!(?:i|he|she|it|they|we|you|the|a|an|this|that|there|my|your|our|his|her|people|nobody|"
        r"everyone|please let|let me|call|come)\b)(?![a-z]+(?:s|ed|ing)\b)[a-z]+\b",
        r"^(?:the )?[\w-]+ first, then\b|^(?:one|a single) \w+ (?:per|for each|for every) \w+|"
        r"^i want to be (?:asked|told|informed|consulted|notified)\b|^i (?:don['’]t|do not) want "
        r"you\b|"
        r"^(?:do not|don['’]t) let (?:any|nobody)|\b(?:is|are) (?:always )?(?:given|written|stated|"
        r"in) (?:in )?(?:utc|gmt|"
        r"iso|euros|dollars|usd|eur|chf|english)\b",
        r"^(?:use|prefer|favou?r) (?!the|this|that|these|those|it|my|his|her|your|an?|both|"
        r"what|which)\b[\w-]+",
        r"^(?:write|format|keep|spell|round|quote|give|state|express|treat|label|mark|name|sign|"
        r"document|encrypt|escape|wrap|prefix|put|cite|list) (?:all|any)\b",
        r"^be (?:brief|concise|polite|formal|honest|precise|explicit|consistent|terse|specific)",
        r"^(?:call|address) me\b(?! (?:when|if|back|later|tomorrow|at|on|after|before|as soon))",
        rf"^{_EN_IF}\b[^,]*, (?:then |please |always |never |do not |don['’]t |first |just |only "
        rf"|you (?:must|should|may|shall|need to|have to) )*{_EN_DO}",
        rf"^{_EN_DO}.*\b(?:when|if) (?:you (?:write|use|answer|add|change|quote|cite|are unsure|"
        r"are not sure|don['’]t know|name|create|make|find|mention|show|give|need|edit|touch|ask|"
        r"have to|run)|in doubt|unsure|i ask|there|a\b|an\b|something|anything|any)",
        r"^(?:do not|don['’]t|never) (?:you )?(?:dare )?(?:ever )?"
        rf"(?:{_EN_DO}|{_NOT_A_BAN})",
        r"^(?:stop|quit) \w+ing\b|^no more \w+",
        r"^(?:ensure|refrain from|avoid)\b|^(?:stay|steer|keep) (?:away|clear|out|off)\b|"
        r"^(?:hands|keep your hands|fingers) off\b",
        r"^(?:make|be) sure\b.*\b(?:every|all|each|any|no|never|only|always|you)\b",
        r"^keep (?:all|every|each|any|your|the|it|them)?\b.*\b(?:under|below|short|brief|concise|"
        r"simple|private|confidential|secret|to yourself|small|up to date|within)\b",
        rf"^only {_EN_DO}|^[\w-]+ only\b",
        r"^no\b.*\b(?:ever|without|unless|except|allowed|permitted|please|in|on|after|before|"
        r"over|above|outside)\b|^not (?:a single|one|any)\b.*\bwithout\b|^nothing\b.*\b(?:without|"
        r"unless|may|must|should|leaves|goes)\b",
        r"\b(?:no exceptions|without exception|at all times|no matter what|until i say|"
        r"unless (?:i|told|asked|otherwise)|in all (?:cases|answers|replies)|"
        r"in every (?:case|answer|reply)|as a rule,)",
        r"^(?:ask|check with|consult|tell|warn|inform|notify) me (?:first|whenever|each time|"
        r"every time|before|if you|about (?:any|every|each|all))\b",
        r"\b(?:is|are) (?:strictly |absolutely )?(?:forbidden|prohibited|not (?:allowed|"
        r"permitted)|off[- ]limits|mandatory|banned|taboo|required in|compulsory|not to be)\b",
        r"^i (?:don['’]t|do not|never) want (?:you to|to see|any)\b|^i (?:expect|require) "
        r"(?:you|all|every|each|that)\b|^i insist\b|^i(?:['’]d| would)? (?:always |only )?prefer "
        r"(?:you|that|it (?:if|when)|\w+ (?:answers|replies|responses|names|code|comments))",
        r"^i(?:['’]d| would)? (?:want|like|need) (?:you|all|every|each|your)\b.*\b(?:always|never|"
        r"every|each|only|from|in (?:all|plain|english)|without)\b",
        r"^treat\b.*\bas (?:confidential|secret|private)|^leave\b.*\b(?:alone|as (?:it|they) (?:is|"
        r"are)|untouched)\b",
        r"\b(?:in no (?:event|circumstances|way)|by no means|at no (?:time|point)|under all "
        r"circumstances|without fail|never again|make (?:it )?a (?:habit|rule|point) (?:of|to))\b|"
        r"^(?:see to it|take care|be careful|watch out) (?:that|to|never|not)\b|^i forbid\b|"
        r"^(?:as of|starting|effective|beginning|from) [^,]{3,20}(?: on(?:wards)?)?, (?!i\b|we\b|"
        r"he\b|"
        r"she\b|they\b|it\b|the (?:shop|office))",
        r"^(?:all|every|each) [^.]*\b(?:in|with|as|under|by|via|through|before|"
        r"without)\b(?!.*\b(?:is|"
        r"are|was|were|has|have|took|came|went|\w+ed)\b)|^(?!the\b|a\b)(?:[\w-]+ )?[\w-]+s (?:in|"
        r"as|with) "
        r"(?:english|french|german|spanish|iso|utc|euros|dollars|plain|lower|upper|full|metric|"
        r"format|"
        r"two decimals|markdown)\b|^(?:short|concise|brief|plain|simple|formal|polite) [\w-]+(?: "
        r"[\w-]+)?"
        r"(?: only|, please)",
        r"^(?:i['’]d|i would) rather (?:you|not)\b|^(?:next time|for future reference|whatever you "
        r"do|prior to (?:any|each|every|\w+ing))\b",
        rf"^we (?:never|always|only|do not|don['’]t) {_EN_WORK}",
        r"^your (?:\w+ ){1,3}(?:must|should|may|have to|has to|need to|needs to|are to|is to)\b",
        r"^(?:the |your )?(?:tone|style|language|format|spelling|documentation|docs|code|output|"
        r"wording|"
        r"replies|answers?|indentation|naming|currency|unit) (?:must|should|shall|is (?:written|"
        r"always|"
        r"kept|to)|stays?|remains?|has to)\b|^i (?:only )?want (?:all|every|each|no|only)\b|"
        r"^(?:limit|restrict) [\w-]+s? to\b|^(?:write|give|send|use|make) (?:me )?(?:short|concise|"
        r"plain|"
        r"simple|full|complete|clear|formal|brief) \w+s\b|^without \w+,? please|"
        r"\b(?:not welcome|not an option|not acceptable|unacceptable|a no-go|a must)\b",
        rf"[,;:–—] (?:but |and |so |please |then )*(?:never|always|do not|don['’]t|only) {_EN_DO}|"
        rf"^[^,]*\b(?:each|every|any|all)\b[^,]*, (?:please )?{_EN_DO}|^(?:once|twice) an? \w+, "
        rf"{_EN_DO}",
        r"^[\w -]+, (?:not|never) [\w -]+[.!]?$|^nothing\b.*\b(?:gets?|is|may|leaves|"
        r"goes)\b.*\b(?:after|"
        r"before|until|without|unless)\b|^(?:not allowed|forbidden|prohibited|mandatory|"
        r"required)\s*:|"
        r"^(?:two|three|one|\d+) [\w ]+ per (?:answer|reply|message|file|function|commit|pull|"
        r"request|line|page)",
        r"^it is (?:essential|vital|important|crucial|imperative|mandatory|required) (?:that|to)\b|"
        rf"^i[^,]*, so (?:please |always |never )*{_EN_DO}|^let['’]s (?:always|never|not|only|"
        rf"stick|keep to|"
        r"avoid)\b|^i(?:['’]d| would) (?:really )?appreciate it if you\b|"
        r"\bnot (?:authori[sz]ed|supposed|entitled|permitted) to\b|\b(?:requires?|needs?|subject "
        r"to|"
        r"without) (?:\w+ )?(?:approval|permission|consent|authori[sz]ation|sign-?off)\b|^refer "
        r"to\b",
        r"^there (?:must|should|may|shall|can) (?:be no|be a|not|never|always)\b",
        r"\b(?:is|are) (?:never|always|only) (?:to|\w+ed|written|kept|sent|done|made|given)\b|"
        r"\b(?:is|are) read-only\b|\bout of the question\b",
        r"^you['’]re (?:not|never|only) (?:to|allowed|permitted)\b",
        r"^no (?:[\w-]+ ){0,2}(?!thanks|news|yes|problems|worries)[\w-]+s[.!]?$|"
        r"^(?:no|not) (?:more|longer|later|fewer|less) than\b|"
        r"^(?:max(?:imum|\.)?|at most) (?:of )?(?:\d|one|two|three|five|ten)",
        r"^(?:[\w-]+ ){1,4}only[.!]?$|\b(?:throughout|everywhere)[.!]?$",
        r"^(?:remember|note|keep in mind) (?:that |to )?(?:you|we|to|never|always|all|no)\b",
    ),
    "de": (
        rf"^(?:\w+ )?(?:\w*regeln?|\w*richtlinien?|vorgaben?|vorschrift(?:en)?|konvention(?:en)?|"
        rf"anweisung(?:en)?|\w*bedingung(?:en)?|einschränkung(?:en)?|grundsatz|merke?|"
        rf"pflicht){_COLON}\S+ \S",
        r"^(?:wichtig|achtung|hinweis|merke?|warnung)\s*[:!]\s+.*"
        r"\b(?:muss|musst|müssen|darf\w*|dürfen|nie|niemals|immer|kein\w*|nicht|nur|verboten|"
        r"soll\w*)\b",
        r"^(?:du|sie|ihr|man|niemand) (?:darfst|dürfen|dürft|darf|sollst|sollt|sollen|soll)\b.*"
        r"\b(?:nicht\w*|nie|niemals|keine?[mnrs]?|nur|immer|ausschließlich|stets|jede\w*)\b",
        r"^(?:du|sie|man) (?:kannst|können|kann|darfst|dürfen|darf)\b.*\baber\b.*\b(?:nicht\w*|nie|"
        r"kein\w*|nur)\b",
        r"^niemand darf\b",
        rf"^(?:du|sie|ihr|man) (?:musst|müssen|müsst|muss|sollst|sollen|solltest|sollten)\b"
        rf"(?!.*\b(?:sein|haben|fühlen|wissen|denken|kennen|sehen)[.!]?$).*(?:{_DE_WORK}|"
        rf"\b(?:immer|"
        rf"stets|vorher|jedes mal)\b)",
        r"^(?:alle|jede\w*|sämtliche\w*|kein\w*|sämtliche\w*)\b.*\b(?:müssen|muss|dürfen|darf|"
        r"sollen|soll|braucht|"
        r"brauchen|gehört|gehören|beginnt|beginnen|endet|enden|bekommt|bekommen|erhält|geht|gehen "
        r"(?:an|über))\b",
        rf"^(?!(?:sie|du|wir|ich|er|es|man|das|die|der|ihr|vielleicht|morgen|heute|hier|dort|dann|"
        rf"trotzdem|"
        rf"leider|manchmal|bald|jetzt|da|so|warum|gestern|dabei|eigentlich)\b){_DE_NOUN} (?:\w+ "
        rf"){{0,4}}(?:müssen|dürfen|sollen|sollten|darf|gehören|bleiben|"
        r"sind (?:immer|stets|nur|grundsätzlich)|werden (?:immer|stets|nur|nie|nicht|niemals))\b",
        r"^(?:der|die|das|den|dem|unsere?) .*\b(?:dürfen|darf|müssen|muss|sollen|"
        r"soll)\b.*\b(?:nicht|"
        r"nie|niemals|nur|immer|stets)\b.*(?:werden|bleiben|sein)[.!]?$",
        rf"^kein\w* (?!der|dies|von|mensch|ahnung|sorge|problem|zeit|lust|angst|wunder|frage|panik|"
        rf"chance|antwort|idee|eile|einziger)[\w-]+(?: (?:mehr|ohne|in|an|bei|außer|bevor|ab|vor|"
        rf"über|auf|für|zu\w*|nach|bitte|von|mit|oder|und)\b.*)?[.!]?$|^kein\w* [\w-]+,? "
        rf"(?:bitte\b|"
        rf"{_DE_WORK})",
        r"^(?:auf keinen fall|keinesfalls|unter keinen umständen|niemals|nie|immer|stets|"
        r"grundsätzlich|ausschließlich|nur|vor jede\w|nach jede\w|bei jede\w|bei allen|in allen)\b"
        r"(?! (?:noch|kurz|mal|ein|zwei|drei|wieder)\b).*\w+en[.!]?$",
        r"\b(?:auf keinen fall|unter keinen umständen|keinesfalls|ausnahmslos|ohne ausnahme|in "
        r"jedem "
        r"fall)\b",
        r"^(?:vor|nach|bei|in|für|zu|mit) (?:jede[mnr]|allen?)\b.*\w+s?t (?:du|bitte)\b|"
        r"^\w+ (?:\w+ )?\w+st du (?:\w+ ){0,4}(?:immer|nie|niemals|nur|stets|kein\w*)\b",
        r"^hör(?:e|en sie)? (?:bitte )?auf,|^hör(?:e|en sie)? (?:bitte )?auf (?:mit|zu)\b",
        r"^ab (?:heute|morgen|sofort|jetzt)\b|^künftig\b|^zukünftig\b|^fortan\b|^von heute an\b",
        r"\b(?:wird|werden)\b.*\b(?:nichts|nicht|nur|erst|nie|niemals|kein\w*)\b.*(?:ge\w+|\w+iert|"
        r"\w+oyt|ver\w+|"
        r"\w+ge\w+)[.!]?$|^(?-i:[A-Z])\w+ wird nur\b|^du \w+st (?:\w+ )?(?:nur|nie|niemals|nichts|"
        r"immer|stets)\b"
        r"(?! (?:müde|so|zu))|^bei \w+ \w+st du\b|^\w+ \w+ \w+st du (?:nicht|nie)\b|^ich (?:dulde|"
        r"akzeptiere) "
        r"(?:kein|nicht)\w*|\b(?:bleibt|bleiben) (?:unangetastet|unberührt|intern|vertraulich|"
        r"unverändert|"
        r"in der|geheim)\b|\bnichts zu suchen\b|\büber mich[.!]?$|^es wird (?:nichts|nicht|nie|"
        r"nur)\b",
        r"^(?:\w+ ){1,5}(?:vermeiden|verzichten|prüfen|nachfragen|fragen|angeben|nennen|verwenden|"
        r"benutzen|nutzen|"
        r"löschen|schreiben|antworten|testen|zitieren|belegen|einhalten|beachten|begründen|"
        r"abstimmen|"
        r"dokumentieren|kennzeichnen|runden|siezen|duzen)[.!]?$|^für \w+ gilt\b|^(?:die |meine "
        r")?\w*regel\b.*:|"
        rf"^wichtig ist, dass\b|^{_DE_NOUN} (?:mit|ohne|in|als|auf|nach|per) {_DE_NOUN}(?: "
        rf"\w+){{0,3}}[.!]?$",
        rf"^{_DE_ANY}.*\b(?:jede\w*|nie|niemals|immer|kein\w*|nur|stets|bevor|sobald|auf ganze|vor "
        rf"dem "
        rf"(?-i:[A-Z])\w+en)\b|^erst \w+ .*, dann\b|^eine?n? \w+ pro \w+|^ich (?:will|möchte) "
        rf"gefragt\b|"
        rf"^alle \w+ (?:bitte )?(?:in|auf|als|mit|per) \w+[.!]?$|^von \w+ (?:lässt|lass) |"
        rf"^wenn\b[^,]*, \w+e dich\b|"
        rf"^fragen (?:zu|über)\b.*\bgehen\b|^\w+ \w+e immer ich\b",
        rf"^{_DE_DO} .*{_DE_EACH}|^{_DE_DO} .*\b(?:auf (?:deutsch|englisch|französisch)|"
        r"kurz und|in (?:ganzen|vollständigen|kurzen|einfachen|einfacher|ganzem))",
        rf"^(?:verwende|nutze?|benutze|bevorzuge|schreib\w?|vermeide|vermeiden sie|verwenden sie|"
        rf"nutzen sie|benutzen sie) (?:bitte )?(?:für \w+ )?(?!de[nmr]\b|die\b|das\b|dies|eine|"
        rf"mein)"
        rf"(?:\w+e[nrs]? )?{_DE_NOUN}",
        rf"^{_DE_DO} .*\b(?:vertraulich|kurz|knapp|höflich|sachlich|präzise|in ruhe|unverändert|"
        r"geheim|anonym|einfach|formell|förmlich|aktuell)(?: und \w+)?[.!]?$|"
        r"^(?:beschränk|begrenz)e?(?:n sie)? (?:dich|sich|deine)\b|^(?:halte?|halten sie) (?:dich|"
        r"sich) "
        r"an\b|^verzicht(?:e|en sie) (?:bitte )?auf\b|^sprich \w+ (?:\w+ ){0,4}an[.!]?$",
        r"\b(?:bis auf weiteres|im zweifel|standardmäßig|kommt nicht in frage|pflicht ist|ist "
        r"pflicht|"
        r"(?:mit|nach|nur mit|hol\w*|brauchst) meine[rn]? (?:\w+ )?(?:zustimmung|freigabe|"
        r"erlaubnis|"
        r"genehmigung))\b|^unsere (?:regel|richtlinie|vorgabe) (?:ist|lautet)\b|"
        r"^nichts\b.*\b(?:ohne|"
        r"bevor|darf)\b|^(?:das nächste mal|beim nächsten mal|nächstes mal)\b",
        r"^ich (?:möchte|will|wünsche mir|hätte gern), dass\b|^ich wäre (?:dir |ihnen )?dankbar|"
        r"\bnicht (?:befugt|berechtigt|autorisiert)\b|^(?:lass|lasst) uns (?:immer|nie|nur|bei)\b|"
        r"^\w+, (?:nicht|keine?) \w+[.!]?$",
        rf"[,;:–—] (?:aber |und |also |bitte )*{_DE_DO} .*\b(?:nie|niemals|nicht|kein\w*|immer|nur|"
        rf"stets)\b|"
        rf"^[^,]*\b(?:jede\w*|alle\w*)\b[^,]*, (?:bitte )?{_DE_DO}",
        r"\b(?:in keinem fall|zu keiner zeit|unter keiner bedingung|nie mehr|nie wieder|mach es "
        r"dir zur "
        r"(?:regel|gewohnheit))\b|^(?:pass|passen sie) (?:bitte )?auf\b|^(?:sieh|sehen sie) "
        r"(?:bitte )?zu\b|"
        r"^unterlass\w*|^ich (?:verbiete|untersage|bitte darum)\b|^(?:ab|von) [^,.]{3,24} (?:bitte|"
        r"immer|nur|"
        r"gehen|geht|gilt|gelten|müssen|werden|laufen|schreib\w*|verwend\w*)\b|"
        r"\bschreibgeschützt\b|"
        r"^(?:kurze|knappe|ganze|einfache) (?-i:[A-Z])\w+(?:,? bitte|[.!]?$)",
        r"^(?:ohne \w+,? bitte|bitte ohne|bitte nur|bitte nicht|bitte stets|bitte nie)\b|^(?:der|"
        r"die|das) "
        r"(?:ton|stil|sprache|format|dokumentation|doku|code) (?:muss|soll|bleibt|wird (?:immer|"
        r"auf)|ist "
        r"(?:immer|stets))\b|^(?:nicht|nie) ohne\b",
        r"^zu (?:jede[mr]|allen) .*\b(?:gehört|gehören)\b|^nur (?-i:[A-ZÄÖÜ])\w+ (?:darf|dürfen)\b|"
        rf"^{_DE_NOUN} (?:brauchen|benötigen|erfordern|bedürfen)\b|"
        r"^(?!ich|wir|er|sie\b|es\b)(?:[\w-]+ ){0,5}(?:nicht|nie|niemals) \w+en[.!]?$",
        r"^\w+(?:en|ern|eln)[.!]? ?$|^(?:maximal|höchstens|nicht mehr als) (?:\d|ein|zwei|drei|"
        r"fünf)",
        r"^(?:duze?|sieze?|duzen sie|nenne?|sprich) (?:mich|uns)\b",
        r"\b(?:ist|sind|bleibt|bleiben) (?:\w+ ){0,3}(?:verboten|untersagt|nicht (?:erlaubt|"
        r"gestattet|zulässig)|tabu|pflicht|unzulässig|unerwünscht)\b|^verboten\b",
        r"^(?:frag|informier|warn|konsultier|benachrichtig)(?:e|en sie)? mich\b.*\b(?:bevor|vor|"
        r"wenn|"
        r"zuerst|erst|immer|falls|sobald)\b|^rückfrage vor\b",
        r"^(?!ohne (?:mich|dich)\b).*\bohne (?:meine?\w* |vorherige |ausdrückliche )?(?:rück\w+|"
        r"freigabe|"
        r"erlaubnis|zustimmung|genehmigung|absprache|okay|ok|mich zu fragen|zu fragen)\b",
        r"^(?:acht|stell|sorg)(?:e|en sie)? (?:bitte )?(?:darauf|sicher|dafür)\b",
        r"^ich (?:will|möchte|wünsche) (?:nie|keine?n?|nicht|dass du|dass sie|nur|immer)\b|"
        r"^ich (?:erwarte|bestehe|verlange|bevorzuge)\b|^vermeide\w*\b|^finger weg\b|"
        r"^lass die finger\b|^schluss mit\b|^nie wieder\b|^es gilt\b",
        rf"^(?:wenn|falls|sobald|bevor|immer wenn|jedes mal,? wenn|sollte|solange)\b[^,]*, "
        rf"(?:dann |so |bitte |zuerst |immer )*(?:{_DE_DO}|\w+st du\b|(?:musst|sollst|darfst) du)",
        rf"^(?:[\w-]+ ){{0,2}}(?!(?:sie|du|wir|ich|er|es)\b){_DE_NOUN} (?:nur|immer|stets|niemals|"
        rf"nie|ausschließlich|grundsätzlich|"
        r"bitte) (?:mit|in|auf|nach|ohne|als|per|über|unter|durch|bei|an|vo[nmr]|aus|für|zu[mr]?|"
        r"klein|groß|kurz|\w+en[.!]?$)",
    ),
    "fr": (
        rf"^(?:\w+ ){{0,2}}(?:règles?|consignes?|directives?|politique|contraintes?|conventions?|"
        rf"exigences?)(?: (?:de|d['’])\s?\w+)?{_COLON}\S+ \S",
        r"^(?:important|attention|note|rappel|avertissement)\s*[:!]\s*.*"
        r"\b(?:dois|devez|jamais|toujours|ne|aucune?|seulement|interdit\w*|uniquement|pas)\b",
        r"^(?:tu|vous|on|personne) (?:ne |n['’])(?:dois|devez|doit|peux|pouvez|peut)\b.*\b(?:pas|"
        r"jamais|plus|que|aucune?)\b|^personne ne (?:doit|peut)\b",
        r"^(?:tu|vous) (?:peux|pouvez)\b.*\bmais\b.*\b(?:pas|jamais|rien|seulement)\b|"
        r"^(?:tu|vous) n['’](?:as|avez) (?:pas |jamais )?(?:le )?droit\b",
        r"^(?:tu|vous) (?:dois|devez|devras|devrez) (?!être|avoir|sentir|bien |savoir|te |vous |"
        r"penser|croire|voir)(?:toujours |d['’]abord |aussi )?\w+(?:er|ir|re|oir)\b|"
        r"^(?:tu|vous) (?:dois|devez) (?:toujours|systématiquement)\b|"
        r"^tu (?:\w+s|\w+x) (?:toujours|uniquement) (?!en retard|aussi|là)",
        r"^(?:tous|toutes|toute?|chaque|aucune?)\b(?! (?:idée|problème|souci)).*"
        r"\b(?:doit|doivent|ne peut|ne peuvent|ne sera|ne part|sans|avant|commence|se termine|"
        r"nécessite|exige|devra|devront|reçoit)\b",
        r"^(?:les|la|le|l['’]|nos|notre|vos|tes|un|une) ?.*\b(?:doivent|devront|doit|devra) "
        r"(?:toujours |rester |être (?:en |écri|rédig|approuv|valid|confirm|document|test|cit|"
        r"sign|format|arrondi|exprim|donn|trait|court|confidenti)|commencer|contenir|avoir |"
        r"inclure|respecter|finir|porter|passer par|tenir|figurer)|"
        r"^(?:les|nos|vos|tes) .*\b(?:ne doivent|ne peuvent|sont toujours|restent|se font|"
        r"s['’]écrivent|ont toujours|vont toujours|prennent toujours)\b|"
        r"^(?:la|le|l['’]|un|une) ?.*\bne (?:doit|peut|sera|devra) (?:pas|jamais|plus|"
        r"que)\b(?!.*\bavoir été)",
        r"^(?:ne |n['’])",
        r"^(?:jamais|toujours|ne jamais|ne pas)\b \w+(?:er|ir|re|oir)\b|^(?:jamais|pas|plus) "
        r"(?:de |d['’])(?!problème|souci|chance|nouvelles|panique|doute|mal)\w+|^rien\b.*\bsans\b",
        r"^arrêt(?:e|ez) (?:de|d['’]|les|avec)|^cess(?:e|ez) |^évit(?:e|ez)\b|^finis? les\b|"
        r"^bas les pattes\b",
        r"\b(?:en aucun cas|sous aucun prétexte|en toutes? circonstances?|sans exception|quoi "
        r"qu['’]il "
        r"arrive|dans tous les cas|jusqu['’]à nouvel ordre)\b",
        r"^à (?:partir|compter) (?:d['’]aujourd['’]hui|de demain|de ce jour)\b|^(?:dès|à "
        r"l['’]avenir)\b",
        r"\b(?:est|sont) (?:strictement |formellement |absolument )?(?:interdite?s?|défendue?s?|"
        r"obligatoires?|proscrite?s?|prohibée?s?|à éviter)\b|^(?:interdiction|défense|interdit) d",
        r"^il faut (?:toujours|que (?:tu|vous|chaque|tous|toute))\b|^il (?:ne )?faut (?:ne )?"
        r"(?:jamais|pas) \w+(?:er|ir|re) \w+ \w+|^il (?:ne faut|n['’]est pas permis|n['’]est pas "
        r"autorisé)\b(?! pas (?:exagérer|rêver|s['’]inquiéter))",
        rf"^{_FR_DO}.*{_FR_EACH}|^{_FR_ANY}.*\b(?:chaque|avant (?:de|d['’]|tou)|sans (?:mon|me|"
        rf"m['’]|que)|à l['’](?:euro|"
        rf"entier|unité)|sauf|toujours|jamais|systématiquement|uniquement)",
        r"^on ne \w+ (?:jamais|pas|rien|plus)\b(?! (?:bien|là|ici|encore))|^(?:évitons|restons|"
        r"gardons|n['’]oublions|ne "
        r"\w+ons)\b|^il convient de\b|^(?:tu|vous) ne \w+ (?:rien|jamais|aucun\w*|que)\b|^(?:tu|"
        r"vous) \w+(?:ras|rez)\b|"
        r"^\w+ \w+ (?:maximum|au plus)\b|^\w+ (?:strictement )?(?:interdite?s?|obligatoires?|"
        r"proscrite?s?)[.!]?$|"
        r"\brien à faire dans\b|\brest(?:e|ent) (?:intouchables?|confidentiel\w*|interne\w*|dans|"
        r"intact\w*)\b|"
        r"\bpar moi[.!]?$|^je ne (?:tolère|accepte)\b|^contact(?:e|ez)-moi avant\b",
        r"^d['’]abord (?:les?|la|l['’])\b.*, (?:ensuite|puis)\b|^une? (?:seule? )?\w+ par \w+|^je "
        r"veux (?:être|que)\b|"
        r"\b(?:est|sont) tabous?\b|\b(?:est|m['’]est|t['’]est) interdit\b|\b(?:sont|est) en (?:utc|"
        r"iso|euros)\b|"
        r", n['’](?:en|y) \w+ (?:jamais|pas)|^dans (?:chaque|tous|toutes)\b[^,]*, \w+e\b|^(?:quand|"
        r"si|lorsque?)\b"
        r"[^,]*, \w+(?:e|s|z)-(?:toi|vous|moi|le|la)\b|^les .*\bne \w+ (?:jamais|pas|que)\b|"
        r"^chaque \w+ va\b",
        rf"^{_FR_DO} (?:\w+ ){{0,3}}(?:en (?:français|anglais|allemand|phrases|texte|minuscules|"
        r"euros|markdown)|au format|brièvement)\b|^sois (?:bref|concis|poli|précis|brève|concise)|"
        r"^soyez (?:bref|concis|poli|précis)",
        r"^(?:utilis|emploi|employ|préfèr|préfér)(?:e|es|ez) (?:des|du|de la|l['’]|les) "
        r"?(?!ci-joint)"
        r"\w+[^.]{0,60}(?:pour|plutôt|,|pas|\.|$)",
        r"^(?:appelle|appelez|vouvoie|vouvoyez|tutoie|tutoyez)(?:[- ]moi| les| nos)\b"
        r"(?! (?:quand|si|demain|ce|plus tard|dès|à))",
        r"^demand(?:e|ez)[- ]moi (?:avant|d['’]abord|toujours|si|mon)\b",
        r"^(?!je\b|j['’]).*\bsans (?:m['’]en|me (?:demander|consulter|prévenir)|(?:mon |ton )?"
        r"(?:accord|autorisation|validation|permission|feu vert))\b",
        r"^(?:veill(?:e|ez)|assure[- ]toi|assurez[- ]vous|fai(?:s|tes) en sorte|pens(?:e|ez) "
        r"toujours|"
        r"tiens[- ]toi|tenez[- ]vous) ",
        rf"^(?:avant|après|à|pour|dans|lors de|en cas de|au début de|à la fin de) (?:chaque|toute?|"
        rf"tous|toutes)\b[^,]*, (?:il faut|tu|vous|{_FR_DO})",
        rf"^(?:si|quand|lorsque?|dès que|chaque fois que|avant de|avant d['’]|en cas de|à chaque "
        rf"fois "
        rf"que)\b[^,]*, (?:alors |d['’]abord |toujours |ne |n['’])*(?:{_FR_DO}|(?:tu|vous) "
        r"(?:dois|devez))",
        r"\b(?:mon|votre) (?:accord|autorisation|feu vert|aval)\b|^notre (?:règle|politique|"
        r"consigne) "
        r"(?:est|veut)\b|^par défaut,|^prière d|^merci de (?:ne|toujours|bien)\b|^(?:pas|hors de) "
        r"question d|^la prochaine fois\b|^il est (?:impératif|nécessaire|obligatoire|"
        r"indispensable|"
        r"essentiel|exclu|hors de question)\b|^n['’]invente",
        r"^(?:limite|limitez|abstiens|abstenez|tiens|tenez|adresse|adressez|cantonne)-(?:toi|vous|"
        r"t['’]en)\b|"
        r"^laiss(?:e|ez) .*\b(?:tranquilles?|tels? quels?|telles? quelles?|intact\w*)\b|"
        r"^trait(?:e|ez) .*\bcomme \w+|^gard(?:e|ez) .*\b(?:sous|courte?s?|brève?s?|secrete?s?|"
        r"confidentiel\w*|moins|privée?s?|simples?)\b",
        r"^sans \w+(?:,| dans | en |[.!]?$)|^(?:le|la) (?:ton|style|langue|format|documentation|"
        r"code) "
        r"(?:doit|reste|est toujours|s['’]écrit)\b",
        r"^(?:seule?s?|personne sauf|personne d['’]autre que) (?-i:[A-Z])\w+ (?:peut|a le droit|"
        r"doit)\b|"
        r"^rien\b.*\b(?:avant|sans)\b|^les .*\b(?:exigent|nécessitent|requièrent|vont (?:dans|à)|"
        r"ne se)\b|^(?:les|la|le|l['’]) ?.*\b(?:doit|doivent) être \w+(?:é|i|u|t)e?s?\b",
        r"^\w+(?:er|ir|re) (?:.* )?(?:toujours|jamais|chaque|uniquement|systématiquement|toutes? "
        r"les|"
        r"tous les)\b|^que (?:chaque|tout|personne|rien|jamais)\b|^(?:maximum|au maximum|pas plus "
        r"de) "
        r"(?:\d|une?|deux|trois|cinq)|^nous n(?:e |['’])\w+ (?:jamais|pas) (?!là|encore)",
        r"^(?:français|anglais|texte brut) (?:uniquement|seulement)\b",
        r"\b(?:à aucun moment|d['’]aucune (?:façon|manière)|en aucune circonstance|jamais plus|"
        r"plus "
        r"jamais|pour rien au monde)\b|^(?:prends garde|prenez garde|fais attention|faites "
        r"attention|"
        r"garde-toi|gardez-vous|assez de|fini les|finies les|je t['’]interdis|je vous interdis|je "
        r"te "
        r"demande|je vous demande)\b|^(?:à compter|à partir|dès|à dater) (?:de |du |"
        r"d['’])?[^,]{3,20}, "
        r"(?:tou|les|chaque|aucun|plus|pas|tu|vous|ne\b|n['’])|^tout(?:e|es|s)? \w+ .*\b(?:doit|"
        r"doivent|en|avec|sans)\b(?!.*\b(?:est|"
        r"sont|a|ont)\b)|^(?:des )?(?:réponses|phrases|messages) (?:courte?s|brèves?|claires?|"
        r"en)\b|"
        r"\ben lecture seule\b|^seule?s? .*\b(?:peut|peuvent|a le droit)\b",
        rf"[,;:–—] (?:mais |et |donc )*(?:ne |n['’])\w+ (?:pas|jamais|rien)\b|^[^,]*\b(?:chaque|"
        rf"tou(?:s|tes) "
        rf"les)\b[^,]*, {_FR_DO}|^\w+ \w+, pas (?:de |d['’])?\w+[.!]?$|^interdit\b",
        r"^je (?:te|vous) serais reconnaissant|^tu n['’]es pas autorisé|^vous n['’]êtes pas "
        r"autorisé|"
        r"^(?:on|tenons-nous|restons)-?\w* (?:n['’]|en |à )",
        r"^j(?:e |['’])(?:aimerais (?:que tu|que vous|autant)|préférerais|exige|insiste|préfère "
        r"(?:que|des|les)|veux (?:que tu|que vous|toujours)|"
        r"ne veux (?:pas|plus|jamais)|attends que)\b",
    ),
    "es": (
        rf"^(?:\w+ ){{0,2}}(?:reglas?|normas?|directri(?:z|ces)|política|instrucci(?:ón|ones)|"
        rf"restricci(?:ón|ones)|convenci(?:ón|ones)|requisitos?|recuerda)(?: de \w+)?{_COLON}\S+ "
        rf"\S",
        r"^(?:importante|atención|nota|aviso|recordatorio|ojo)\s*[:!]\s*.*"
        r"\b(?:debes?|deben|nunca|siempre|no|ning\w+|solo|sólo|prohibid\w+)\b",
        r"^(?:siempre |nunca |no )(?:debes|deben|debéis|puedes|pueden|tienes que|se (?:puede|debe|"
        r"permite|pueden|deben|permiten|admite\w*))\b|^nadie (?:debe|puede)\b",
        r"^puede[sn]? .*\bpero (?:\w+ ){0,2}(?:no|nunca|nada|solo|sólo)\b",
        r"^(?:debes|deben|debéis|debe usted|tienes que|has de|hay que) (?!de\b|estar|ser|haber|"
        r"creer|"
        r"imaginar|sentir|saber|ver|ir|pensar|tener)(?:siempre |también )?\w+(?:ar|er|ir)\w*\b|"
        r"^(?:debes|tienes que) (?:siempre|ser (?:breve|conciso|cortés))",
        r"^(?:todos?|todas?|cada|ning[uú]n\w*|nada)\b.*\b(?:debe|deben|tienen? que|pueden?|sin|"
        r"antes|"
        r"empieza|termina|lleva|requiere|necesita|ha de|sale|va)\b",
        r"^(?:los|las|el|la|nuestr[ao]s?|tus) .*\b(?:deben?|tienen? que|han de|ha de) (?!de\b|"
        r"haber|"
        r"estar (?:en el|en la|en alg|mal|cansad))\w+|"
        r"^(?:los|las) .*\b(?:siempre (?:llevan|van|tienen|se)|van siempre|se escriben|"
        r"nunca se)\b|^(?:el|la|los|las) .*\bno (?:se )?(?:debe|puede)n? \w+",
        rf"^{_ES_DO}.*{_ES_EACH}|^{_ES_DO} (?:\w+ ){{0,3}}(?:en (?:español|inglés|francés|frases|"
        r"texto|minúsculas|euros|formato)|con frases|brevemente)\b|^sé (?:breve|conciso|claro|"
        r"cortés|"
        r"preciso)",
        r"^(?:\w+ ){0,4}no se (?!oye|ve|sabe|puede ver|nota|siente)\w+|^(?:evitemos|mantengamos|no "
        r"\w+mos)\b|^conviene\b|"
        r"^(?:tú |usted )?\w+(?:as|es) (?:\w+ )?(?:solo|sólo|únicamente|nada|siempre) |^\w+(?:arás|"
        r"erás|irás)\b|"
        r"^no \w+as nada\b|^\w+ \w+ como máximo\b|^\w+ (?:terminantemente )?(?:prohibid|"
        r"obligatori)[oa]s?[.!]?$|"
        r"\bno pintan? nada\b|\b(?:es|son) (?:intocables?|confidenciales?|sagrad\w+)\b|\bpor "
        r"mí[.!]?$|"
        r"^no (?:tolero|acepto|admito)\b|\bantes de cada\b|: no se\b|^(?:con|por|a|tras) cada\b",
        rf"^{_ES_ANY}.*\b(?:cada|tod[oa]s? (?:l[oa]s )?\w+|cualquier|antes de|después de cada|"
        rf"hasta que yo|sin (?:mi|"
        rf"que|preguntar)|al (?:euro|entero)|siempre que)\b|^(?:si|cuando)\b[^,]*, (?!(?:el|la|los|"
        rf"las|yo|él|"
        rf"ella|me|se|te|nos|todo|nadie|hay|es|son|no)\b)[a-zñáéíóú]{{2,}}(?:a|e|i|í|á|é|ate|"
        rf"ete)\b",
        r"^primero (?:el|la|los|las)\b.*, (?:luego|después)\b|^un[oa]? (?:sol[oa] )?\w+ por \w+|"
        r"^quiero que me\b|^no quiero que\b|\b(?:es|son) tabú\b|\btienes prohibido\b|"
        r"^(?:los|las|el|la) .*\bllevan? siempre\b|\ben (?:utc|iso)\b|, (?:no|nunca) l[oa]s? "
        r"\w+(?:es|as)\b|"
        r"^(?:todas?|cada) .*\bvan? (?:a|en|con)\b|^en (?:cada|tod[oa]s)\b",
        rf"^(?:siempre|solo|sólo|solamente|únicamente|nunca) {_ES_DO}(?! dos| tres| un)",
        r"^(?:usa|use|utiliza|utilice|prefiere|emplea) (?!(?:el|la|los|las|este|esta|eso|esto|mi|"
        r"un|"
        r"una|the|it|this|that|an?)\b)\w+",
        r"^(?:limítate|limítese|abstente|absténgase|tutéame|trátame|cíñete|dirígete a) ?\b|"
        r"^deja\w* .*\b(?:en paz|como (?:está|están)|intact\w+)|^trat(?:a|e) .*\bcomo \w+|"
        r"^mantén .*\b(?:breves?|cortas?|cortos?|debajo|menos de|simples?|privad\w+|"
        r"actualizad\w+)\b",
        r"^(?:solo|sólo|únicamente|nadie (?:salvo|excepto)) .*\bpueden?\b|^(?:solo|sólo) (?:tienes|"
        r"puedes)\b",
        r"\b(?:mi|previa) (?:permiso|aprobación|autorización|visto bueno|consentimiento)\b|"
        r"^nuestra (?:política|norma|regla) es\b|\bhasta nuevo aviso\b|^por defecto,|"
        r"^quiero que (?:\w+ )?\w+s\b.*\b(?:siempre|nunca|cada|en (?:español|inglés)|solo)\b",
        r"^(?:los|las) .*\b(?:requieren|necesitan|no se \w+n|van en|se \w+n (?:en|con|siempre|"
        r"solo))\b|"
        r"\bno está (?:permitido|autorizado|admitido)\b",
        r"^(?:dej|par)(?:a|e|en) de \w+|^evit(?:a|e|en)\b|^(?:basta|se acabó|se acabaron|nada de|"
        r"ni "
        r"un[ao]? )\b",
        r"^no más \w+|^nunca (?:más )?\w+(?:es|as|áis|éis)\b|^no vuelvas a\b|^jamás \w+(?:es|as)\b",
        r"^no (?:me |te |se |lo |la |los |las |le )?(?!tienes|eres|quieres|sabes|vienes|haces|ves|"
        r"crees|entiendes|estás|vas|has|puedes|debes|necesitas)\w+(?:es|as)(?: \w+){1,}",
        r"^no (?!es\b|está|hay|he\b|ha\b|fue|tiene|puede|debe|sabe|quiere|viene|hace|se\b|me\b|"
        r"le\b)"
        r"(?:us|utilic|borr|escrib|toqu|modifiqu|cambi|envi|enví|compart|public|sub|instal|ejecut|"
        r"respond|contact|llam|elimin|mezcl|inclu|añad|haga|ponga|compre|gaste|mencion|revel)\w*\b",
        r"\b(?:bajo ning[uú]n (?:concepto|pretexto)|en ning[uú]n caso|bajo ninguna circunstancia|"
        r"sin "
        r"excepci(?:ón|ones)|en todo momento|pase lo que pase|en todos los casos|hasta nuevo "
        r"aviso)\b",
        r"^(?:a partir de (?:hoy|mañana|este momento)|desde hoy|en el futuro)\b",
        r"\b(?:está|queda|están|quedan) (?:\w+mente )?prohibid\w+|\b(?:es|son) obligatori\w+|"
        r"^prohibid\w+ \w+",
        r"^(?:pregúntame|consúltame|avísame|pregúnteme|consulta conmigo|consúltalo)\b.*\b(?:antes|"
        r"primero|siempre|si|cuando|cada)\b",
        r"^(?!yo\b).*\bsin (?:preguntarme|consultarme|avisarme|que yo|(?:mi |previa )?(?:permiso|"
        r"aprobación|autorización|visto bueno|consentimiento))\b",
        r"^(?:asegúrate|asegúrese|asegúrense|procura|recuerda (?:siempre|que (?:no|nunca|siempre|"
        r"debes))) ",
        rf"^(?:antes de|después de|en|para|al inicio de|al final de) (?:cada|tod[oa]s?)\b[^,]*, "
        rf"(?:hay que|debes|{_ES_DO})",
        rf"^(?:si|cuando|siempre que|cada vez que|antes de|después de|en caso de|al)\b[^,]*, "
        rf"(?:entonces "
        rf"|primero |siempre |no |nunca )*(?:{_ES_DO}|debes|tienes que)",
        rf"^no (?:me |te |se |nos |lo |la |los |las |le |les )?(?!d[aei]\b|di\b|sé\b|lea?\b|"
        rf"llam\w+ la|"
        rf"cre[oea]\b|tiene|ten\b){_ES_DO}",
        r"^(?:no|nunca|siempre|jamás|solo|sólo) \w+(?:ar|er|ir)(?:l[oae]s?|se|me)?\b|"
        r"^\w+(?:ar|er|ir)(?:l[oae]s?)? (?:.* )?(?:siempre|nunca|cada|solo|sólo|únicamente|todas? "
        r"las?|"
        r"todos? los?)\b|^que (?:no|nunca|ning\w+|tod[oa]s?|cada|nadie)\b",
        r"\bse \w+n? (?:\w+ ){0,2}(?:siempre|nunca|solo|sólo|únicamente)\b|, siempre (?:en|con|por|"
        r"a)\b|"
        r"^se (?:prohíbe|ruega|exige|requiere)\b|^ni se te ocurra\b|^(?:ni hablar|nada) de\b|"
        r"^es (?:imprescindible|necesario|obligatorio|fundamental|esencial|importante) (?:que "
        r")?\w+",
        r"^sin \w+(?:,| en | por |[.!]?$)|^(?:tutea|trata de)\b|^(?:el|la) (?:tono|estilo|idioma|"
        r"formato|"
        r"documentación|código) (?:debe|tiene|es siempre|se escribe|va)\b|"
        r"^\w+ (?:breve|corto|formal|cortés)s? siempre\b",
        r"^(?:tu|tus|sus?) \w+ (?:\w+ ){0,2}(?:deben?|tienen? que|han de|ha de)\b|"
        r"^la próxima vez\b|^nosotros nunca\b|^(?:máximo|como máximo|no más de) (?:\d|un|dos|tres|"
        r"cinco)",
        r"\b(?:de ning[uú]n[ao]? (?:manera|modo|forma)|en ninguna circunstancia|por nada del mundo|"
        r"en ningún momento|nunca más|de ahora en más)\b|^(?:cuida|vela|ten cuidado|ten en cuenta|"
        r"evita|"
        r"cuídate|no dejes) (?:de|que|por|con)\b|^(?:te|le|os) (?:prohíbo|pido que|ruego que|"
        r"exijo)\b|"
        r"^(?:basta|fuera|cero) (?:de|con|los|las|emojis)?\b|^a partir de(?:l| la| este| esta) "
        r"[^,]{3,20}, "
        r"(?:tod|los|las|cada|ning|no\b|nunca|debes)|^(?:tú|usted|el asistente) (?:no |nunca |solo "
        r")",
        r"^(?:se debe|se deben|no hay que|hay que|cualquier|con cada|por cada|tras cada|solo se|"
        r"únicamente se|en tus respuestas|no te está)\b|\b(?:intocable|de solo lectura|salvo que "
        r"yo|"
        r"mientras (?:yo )?no)\b|^(?:los|las) \w+ (?:\w+ ){0,2}(?:en|con) (?:español|inglés|"
        r"formato|euros)\b|"
        r"^(?:respuestas|frases|textos|mensajes) (?:breves|cortas|cortos|claras|en)\b",
        rf"[,;:–—] (?:pero |y |así que |por favor )*(?:nunca|no|siempre) {_ES_DO}|^[^,]*\b(?:cada|"
        rf"tod[oa]s l[oa]s)"
        rf"\b[^,]*, {_ES_DO}|^\w+, (?:no|nunca) \w+[.!]?$|^(?:prohibido|obligatorio)\b",
        r"^te (?:agradecería|agradezco) que\b|^no (?:estás|está usted) autorizad|^no tienes "
        r"(?:permiso|derecho|"
        r"autorización)\b",
        r"^(?:preferiría|me gustaría|quisiera) que\b|^(?:dirígete|dirígase|limítate|abstente) ",
        r"^(?:español|inglés|texto plano) (?:solamente|únicamente|solo)\b|^(?:solo|sólo|"
        r"únicamente) en \w+",
        r"^(?:exijo|insisto|prefiero (?:que|respuestas|frases|nombres)|quiero que (?:siempre|nunca|"
        r"todas?|todos?|cada)|no quiero (?:que|ver|más|ningun)|espero que (?:siempre|nunca|"
        r"todas?))\b",
    ),
    "zh": (
        rf"^[^，。：:]{{0,6}}(?:规则|规定|守则|准则|原则|政策|约束|规范|要求){_COLON}\S{{3,}}",
        r"^(?:重要|注意|警告|提醒|切记|记住|重要提示)\s*[:：!！，].*(?:不能|不要|不得|必须|只|禁|"
        r"勿|都要|别|一律|先)",
        r"(?:必须|务必)|一定要(?:先|注明|使用|检查|确认|写|用|在|经)",
        r"不得(?!不|了|已)|不准|不许|禁止|严禁|切勿|请勿|不允许",
        r"(?:永远|绝对|千万|坚决|任何(?:时候|情况|条件)下?都?|无论.{0,8}都)(?:不要|别|不能|不可|"
        r"不得|要|应)",
        r"^(?:你|您|所有|每|任何|一切|全部|凡|在每).{0,18}(?:不能|不可|不要|不应|应当|应该|都要|"
        r"都得|都应|只能|都用|都以|都必|需要?|要(?:用|写|有|先|经))",
        r"^(?:不要|别|不用再|不必|勿|少)",
        rf"(?:始终|总是|一直|永远|一律|统一|尽量|只){_ZH_DO}",
        r"只(?:能|许|可|准|使用|允许)|不可以?(?!思议|能)",
        r"(?:从|自)(?:现在|今天|今|即日|此|明天|这)(?:起|开始|以后)|(?:今后|以后|往后|此后|"
        r"接下来).{0,8}(?:要|请|都|不|用|每|别|必|只|先|一律)",
        r"(?:之前|以前|前)[，,]?.{0,4}(?:先|必须|都?要|应)",
        r"(?:未经|没有|没经过|除非|不经).{0,12}(?:不|禁|别|否则)",
        r"^(?:避免|停止|杜绝)|^(?:确保|保证)",
        rf"^(?:如果|若|当|一旦|遇到|每当|每次|凡是?|在.{{1,8}}(?:时|之前|之后|前|后)|"
        rf"[^，。]{{2,12}}(?:时|的时候))[^。]*[，,]?.{{0,3}}(?:请|就?要|应|须|先|都|不要|别|务必|"
        rf"停|把){_ZH_DO}?",
        r"^[^，。]{2,14}(?:要用|都用|要写|要有|要附|要经|要先|应使用|应用|应以|须用|须经|需经|"
        r"需要先|都以|采用|要保持|应保持|要简|要短|要按|要注|要标)",
        rf"^{_ZH_EACH}[^。]*(?:要|用|请|以|须|应|不|先)",
        r"^(?:用|使用|请用|以)(?!了|过|户|处)[^，。]{1,10}(?:回答|回复|书写|写|格式|语言|单位|"
        r"命名|表示|说明|交流|沟通|输出|语气)",
        r"(?:限制|上限|预算|权限)[：:为是]|最多.{1,8}(?:个|条|句|字|段)|(?:控制|"
        r"限制)在.{1,10}(?:以内|之内|内)|不(?:要)?超过",
        r"^只(?!有|是|剩|要|不过|好)|^(?:默认|原则上|尽量|尽可能)|从此|另行通知|有(?:疑问|问题|"
        r"疑虑)就|才(?:能|可以)",
        r"只有.{1,12}(?:可以|能|才|有权|权限)|(?:需要|须|要|必须)(?:有|经|得到|经过)?.{0,8}(?:批准|"
        r"同意|签字|许可|授权|审核|确认|来源|出处|签名)",
        r"(?:不能|不可以|不应|不该)(?:明文|直接|随意|擅自|使用|用|写|含|有|出现|包含|发|存|改|动)",
        r"(?:遵循|遵守|按照|参照).{1,12}(?:规范|格式|规定|标准|指南)|(?:写成|用|采用|"
        r"改用).{1,10}(?:格式|单位|姓氏|语气|风格|语言|称呼)。?$",
        r"^(?:绝不|决不|永不|从不)|^我(?:不想|不希望|不要|更喜欢)(?:看到|你|再|在)?|^我们(?:从不|"
        r"一律|只)",
        r"^每次[^。]*(?:前|后|时)[^。]*|^修复每|^对(?:每|所有)",
        r"^(?:星期|周|每).{1,3}不(?:部署|发布|提交|上线)",
        r"每(?:个?月|天|周|年|次).{0,8}一次|^每[^。]{1,8}都(?!有|是|很|会|喜欢|拿到|来|去)|"
        r"^先[^。]*再|就(?:直)?(?:说|问|停)|"
        r"不能出现|^一次.{0,8}只|之前把|时(?:要)?先",
        r"^(?:叫我|称呼我|称我)|我(?:希望|要求|需要)(?:你|您|所有|每)",
    ),
    "ja": (
        rf"^[^、。：:]{{0,6}}(?:ルール|規則|方針|ポリシー|制約|注意事項|約束|規約|条件|原則|制限|"
        rf"予算){_COLON}\S{{3,}}",
        r"^(?:重要|注意|警告|お願い)\s*[:：!！].*(?:いけ|なら|ください|こと|禁止|必ず|ない)",
        r"(?:て|で)は(?:いけ|なら|なり|だめ|ダメ|駄目|困り)",
        r"(?:必ず|すべて|全て|常に|毎回|つねに|は|を|に).*(?:なければ|なくては|ねば)(?:なら|なり|"
        r"いけ)(?:ない|ません)[。.!！]?$|(?:必要|義務)があ(?:る|ります)[。.!！]?$|ことに(?:なって|"
        r"して)い(?:る|ます)[。.!！]?$|べき(?:です|だ)?[。.!！]?$|べからず",
        r"(?:禁止|厳禁|禁ず|不可|必須|義務|許可制|御法度)(?:です|だ|とする|とします|します|する|"
        r"る)?[。.!！]?$",
        rf"(?:必ず|絶対に?|常に|いつも|毎回|決して|場合(?:でも|も|は|には)|今後|今日から|以後|以降|"
        rf"これから|原則|基本的に|一切|一律|すべて|全て|どんな|いかなる|あらゆる|各|ごとに|毎に|"
        rf"たびに|統一|極力|なるべく|できるだけ|のみ|だけ|二度と|もう).*(?:{_JA_DO}|ないで|するな|"
        rf"てね|です[。.!！]?$|ます[。.!！]?$)",
        r"(?:やめて|止めて|控えて|避けて|よして)(?:ください|下さい|ね|くれ|ほしい)?[。.!！]?$|"
        r"(?:控え|避け|やめ)る(?:こと|ように)|お控え|ご遠慮",
        r"(?:ないで|ずに)(?:ください|下さい|ね|くれ|ほしい|おいて)?[。.!！]?$|"
        r"(?<!に)(?<!か)(?:する|使う|書く|触る|送る|消す|変える)な(?:よ)?[。.!！]?$",
        r"(?<!と)(?<!いう)(?<!の)(?<!この)(?:る|う|く|す|む|つ|ぶ|ぬ|ない|せぬ|らぬ)こと[。.!！]?$",
        rf"前に.*(?:{_JA_DO}|必ず|まず)",
        rf"(?:とき|時|際|場合|たら|れば|なら|後|あと)[はにも、].*{_JA_DO}|(?:たら|れば|なら|ときは|"
        rf"際は|場合は).*{_JA_DO}",
        r"(?:は|も).{1,16}(?:語|形式|表記|単位|文体|敬語|調|体|文字|ケース|以内|以下|以上|桁|"
        r"箇条書き|スペース|タブ|引用符|文章)(?:で|に|と)(?:し|書|表|答|統|お|記|揃|使|す).*",
        rf"(?:語|形式|表記|単位|敬語|調|体|丁寧語|以内|箇条書き|簡潔|短く|丁寧)(?:で|に|"
        rf"を)?(?:使って|答えて|書いて|回答して|返して|話して|して|まとめて|お).*{_JA_DO}",
        r"(?:許可|承認|同意|確認|断り|相談)(?:を得ず|なし|なく|無し|もなく|せず|のない).*(?:ない|"
        r"な|禁止|ません|こと|ないで)",
        r"(?:まで|以内|以下|上限)(?:に|と|で|です).*|(?:必要|停止|限定|対象外|読み取り専用)(?:です|"
        r"とする|とします)[。.!！]?$(?<!今は必要です。)",
        r"(?:できる|よい|いい)のは.*(?:だけ|のみ)です|のみ(?:許可|可能|可)|見たくありません|"
        r"(?:して|使って|書いて)ほしくない",
        r"(?:苗字|名字|敬称|さん付け|メートル法|略語|専門用語|敬語|タブ|スペース|箇条書き|標準語|"
        r"丁寧語|常体|敬体)(?:で|を|は).*(?:ください|下さい|こと|ように)",
        r"(?:ポリシー|決まり|ルール|方針)(?:は|として).*(?:です|ます)[。.!！]?$|(?:厳守|徹底|"
        r"遵守)(?:して|する|で|です|のこと)",
        r"(?:必ず|絶対に?|常に|決して|一切).*(?:る|う|く|す|む|つ|ない)[。.]?$|(?:公開|使用|変更|"
        r"削除|送信)(?:不可|厳禁)",
        r"^[^、。]{1,12}(?:には|では|は).{1,14}(?:しない|させない|出さない|使わない|"
        r"書かない)[。.]?$|(?:のみ|だけ)[。.]?$|最大.{1,4}[。.]?$|"
        r"ないように[。.]?$",
        r"毎(?:月|週|年|日).*(?:ください|こと)[。.]?$|(?:て|で)ほしい(?:です)?[。.]?$|(?:認め|"
        r"許し)ません[。.]?$|禁じます|"
        r"一つにつき|^まず[^。]{1,12}、それから",
        r"(?:次回|次)から|(?:勝手に|無断で|むやみに)",
        r"ように(?:して|お願い|すること|しなさい|心がけ)",
        r"(?:許され|認められ|許可され)(?:ない|ません|ていません)",
    ),
}

POLITE_QUESTIONS = (
    r"(?:can|could|would|will) you (?:(?:please|kindly) (?:always|never|only)|(?:please )?(?:from "
    r"now "
    r"on|stop \w+ing|in (?:the )?future))\b",
    r"(?:can|could|would|will) you (?:please )?(?!.*\bsee\b).*\b(?:from now on|in (?:the )?future|"
    r"every time|"
    r"each time)\b",
    r"(?:kannst|könntest|würdest|können|könnten|würden) (?:du|sie)\b.*\b(?:ab jetzt|ab sofort|"
    r"künftig|"
    r"in zukunft|bitte (?:immer|nie|nur)|jedes mal|aufhören)\b",
    r"(?:peux|pourrais|pouvez|pourriez)[- ](?:tu|vous)\b.*\b(?:désormais|dorénavant|à l['’]avenir|"
    r"toujours|"
    r"arrêter de|chaque fois|ne plus)\b",
    r"¿?(?:puedes|podrías|puede|podría)\b.*\b(?:a partir de ahora|en adelante|siempre|dejar de|"
    r"cada vez)\b",
    r"(?:能不能|可不可以|可以|能否|能).{0,4}(?:以后|每次|总是|一直|别再|不再|从现在)",
    r"(?:今後|これから|いつも|常に|毎回|必ず).*(?:いただけ|もらえ|くれ)(?:ます|ません)か",
)
"""Beginnings of questions that ask for the same act each time: rules in the form of politeness."""

# A sentence with one of these is no rule in spite of a pattern above: it tells of others, of the
# past or of the speaker, it supposes something, it comforts, or it asks for one act now.
NO_RULES: Mapping[str, Sequence[str]] = {
    "en": (
        r"^(?:i(?![^,]*, so )(?!(?:['’]d| would)? (?:\w+ )?(?:want|appreciate|rather|forbid|need|"
        r"expect|insist|require|prefer|like|ask)|"
        r" don['’]t want| do not want)\b|he|she|they|it(?! is (?:essential|vital|important|crucial|"
        r"imperative|mandatory|required))(?!(?: is|['’]s) (?:strictly )?(?:forbidden|prohibited|"
        r"not (?:allowed|permitted)|mandatory)| must| should)|there(?! (?:must|should|may|shall|"
        r"can) )|what(?!ever)|who|how|why|where|"
        r"my (?!name|code|rule|rules|preference|answers|files|data|e-?mail|address)\w+|his|her|"
        r"their|somebody|someone|people|maybe|perhaps)\b",
        r"^(?!.*\bfrom (?:now|here|today)).*\b(?:said|says|told|claims?|thinks?|believes?|heard|"
        r"wrote)"
        r" (?:me |us |him |her |them )?(?:that|to)\b",
        r"\b(?:must|should|could|can['’]t|cannot|never|may|might) (?:not |never |always )?have "
        r"(?:been|told|seen|gone|known|said|got|gotten|come|made|done|lost|left|forgotten|taken|"
        r"given|"
        r"had|bought|\w+ed)\b",
        r"\b(?:(?<!of )(?<!from )(?<!starting )tomorrow|yesterday|tonight|last (?:week|month|year|"
        r"night|time)|right now|just now|"
        r"park|the sign says|i don['’]t care|for the meeting|this (?:time|morning|afternoon|"
        r"evening|week|once|minute)|(?<!from )(?<!of )(?<!starting )today|"
        r"(?:next|on) (?:mon|tues|wednes|thurs|fri)day(?! (?:afternoon|evening))(?<!on friday))\b",
        r"\b(?:the (?:attached|following)|attached (?:file|image|document)|(?:each|every one|all|"
        r"any|"
        r"none) of (?:the|them|us|these|those|it))\b",
        r"^(?:from (?:now|here|today) on(?:wards?)?|going forward|in (?:the )?future),? (?:(?:the|"
        r"my|"
        r"our|his|her) (?:[\w-]+ )?[\w-]+s\b|(?:i(?!['’]d| want| expect| need| would)|he|she|they|"
        r"it|"
        r"we(?:['’]ll|['’]re| will| are))\b)",
        r"^(?:when|if|once|before|after|as soon as) (?:you(?:['’]re| are| have| can| want| like| "
        r"get| "
        r"see| go| leave| arrive| come|['’]ve)?|you (?:get|have)(?: a)?) (?:time|ready|done|home|"
        r"back|"
        r"here|there|a (?:minute|moment|second)|to|chance|leave|go|finished|free|bored|hungry)\b",
        r"^(?:you|nobody|no one|everyone|everybody|never|don['’]t|do not|"
        r"stop)\b.{0,16}\b(?:worry\w*|"
        r"believe|imagine|be (?:sad|sorry|silly|afraid|shy|late|serious|ridiculous|surprised|upset|"
        r"alone|angry|too|so)|kid\w*|jok\w+|panic\w*|cry\w*|laugh\w*|hesitate|bother|mind|"
        r"complain\w*|tease|teasing|star(?:e|ing)|whin\w+|pretend\w*|wast\w+|give up|know|forget "
        r"(?!to\b)|"
        r"miss|wonder\w*|feel\w*|think(?:ing)?|lose|hurry|overthink\w*|see|seen|hear|heard|"
        r"be able|like|liked|not need to|understand|understood|expected|wanted|thought|guessed|"
        r"wait)\b",
        r"^you (?:must|should|have to|need to|can|may) (?:really |also )?(?:be\b(?! (?:brief|"
        r"concise|"
        r"polite|formal|precise|explicit|consistent))|see|try|visit|meet|read|hear|come|know|taste|"
        r"watch|feel|miss|mean|think|rest|sleep|eat)\b(?!.*\b(?:before|every|each|always)\b)",
        rf"^(?!please|do\b|don|never|always|no\b|only|if|when|you|{_EN_DO}|.*\b(?:must|never|"
        rf"always|only)\b).*"
        r"\b(?:was|were|did|had|went|came|took|got|used to|failed|passed|has been|have been|"
        r"don['’]t we|isn['’]t it|doesn['’]t it)\b",
        r"^(?:no|not)\b.*\b(?:idea|problem|worries|doubt|wonder|thanks|matter what you|news|one "
        r"(?:knows|came|is|was|likes|answered)|luck|hurry|rush|way|comment)\b",
        r"^(?:all|every|each|any|no) (?:[\w-]+ ){1,2}(?:needs? (?:a (?:break|friend|hug|coffee)|"
        r"love|some)|"
        r"has (?:a|an|its)|have (?:a|an)|knows|likes?|loves?|works?|fails?|went|"
        r"were)\b(?!.*\b(?:must|never|always)\b)",
        r"^(?:stop|wait),|^stop (?:by|at|here|there)\b|\bin my (?:opinion|experience)\b",
        r"^keep (?:going|calm|it up|up|in touch|trying|me posted|the (?:change|receipt|faith))\b",
        r"^(?:always|never) (?:a|an|the|mind|say never|been|happy|in|on)\b",
        r"^(?:only|just) (?:\w+ ){0,3}(?:of|people|days?|minutes?|left|came|fails?|failed|two|"
        r"three|"
        r"one)\b",
    ),
    "de": (
        r"^(?:ich(?! (?:will|möchte|wünsche|erwarte|bestehe|verlange|bevorzuge|wäre|verbiete|"
        r"untersage|bitte darum))|er|es(?! (?:ist|gilt|"
        r"sind))|wir|mein\w*|sein|seine|ihre?|der (?:arzt|chef|kollege)|manche|viele|beide|was|wer|"
        r"wie|"
        r"warum|wo|vielleicht|danke|schade|gestern|heute|jetzt|das (?:ist|war|darf doch|muss))\b",
        r"\b(?:sagte?|meinte?|behauptet|hieß|erzählte?|verlangte?|glaubt?e?),? (?:dass|sie|er|mir|"
        r"uns|man)\b",
        r"^(?:[\w-]+ ){1,3}(?:sagt|sagte|meint|meinte|verlangt|verlangte|behauptet|glaubt|"
        r"findet)\b",
        r"\b(?:muss|müssen|musst|dürfte\w*|sollte\w*)\b.*\b(?:ge\w+|\w+iert|ver\w+) (?:haben|"
        r"worden sein)\b|"
        r"^(?:du|sie) (?:musst|müssen|müsst)\b.*\b(?:müde|hungrig|(?<!immer )sein|"
        r"haben)\b(?<!immer höflich sein)",
        r"\b(?:gestern|morgen (?:um|früh|abend)|gerade|vorhin|letzte[nrs]? (?:woche|monat|jahr|"
        r"mal)|"
        r"heute (?:abend|nachmittag|noch|um|vormittag)|diesmal|dieses mal|angehängt\w*|"
        r"beigefügt\w*)\b",
        r"^(?:wenn|falls|sobald|bevor) (?:du|sie|ihr) (?:\w+ ){0,2}(?:zeit|magst|mögen|willst|"
        r"wollen|"
        r"kannst|können|fertig|da|zurück|zu hause|lust|gehst|kommst|ankommst|bereit)\b",
        r"\b(?:sorgen?|angst|traurig|böse|sauer|zögere?|ärgere?|wunder|weinen?|lachen?|jammern|"
        r"panik|"
        r"eile|auf mich warten|warte nicht|stress|enttäuscht|vergiss mich)\b",
        r"^(?:vergiss nicht|hör auf (?:dein\w*|mich|mein\w*|sein\w*))\b",
        r"\b(?:war|waren|hatte|hatten|wurde|wurden|kam|kamen|ging|gingen|lief|liefen|gab|konnte\w*|"
        r"musste\w*|wollte\w*|durfte\w*|haben (?:\w+ ){1,6}ge\w+)\b",
        r"^(?:ab (?:heute|morgen|sofort|jetzt)|von (?:jetzt|nun) an|künftig|in zukunft) (?:habe|"
        r"bin|schlafe|gehe|esse|werde ich|ist|"
        r"sind|haben|wird|hat|öffnet|schließt|gibt|fährt|kostet|werden (?:die|wir|sie))\b(?! .*ich "
        r"dass)",
        r"^(?:immer|nie|nur) (?:wieder|noch|dies\w*|das\w*|mit der ruhe|ein|zwei|drei|der|die)\b|"
        r"^(?:in der regel|jede[rs]? der|alle (?:tests|anderen) (?:sind|liefen)|kein\w* (?:der|"
        r"von))\b",
        r"^kein\w* (?:nachricht\w*|strom|termine?|internet|post|milch|platz|ergebnis\w*|fehler|"
        r"rückmeldung"
        r"\w*|interesse|bedarf|einwände?|grund|hunger|netz|treffer|neuigkeiten|geld|kaffee|schnee|"
        r"regen|zug"
        r"|bus|meldung\w*|mensch\w*|unterschied\w*)\b",
        r"^nur (?:\w+ )?(?:\w+ )?(?:schlagen|kamen|sind|waren|ist|hat|haben|fehlt|fehlen)\b",
        r"^(?:alle|jede\w*|kein\w*) (?:[\w-]+ ){1,2}(?:ist|hat|haben|sind|weiß|mag|liebt|kennt|"
        r"funktioniert)\b"
        r"(?!.*\b(?:verboten|tabu|pflicht|erlaubt|untersagt|zu|ohne|in|\w+zu\w+en)\b)",
    ),
    "fr": (
        r"^(?:je(?! (?:veux|ne veux|préfère|préférerais|t['’]interdis|vous interdis|te demande|"
        r"vous demande|te serais|vous serais|ne tolère|n['’]accepte|ne accepte))|j['’](?!exige|"
        r"insiste|attends|aimerais)|il(?! "
        r"(?:faut|ne faut|est|n['’]est|te faut|vous faut))|elles?|"
        r"ils|nous(?! n(?:e |['’]))|on (?!ne)|mon|ma|mes|son|sa|ses|leurs?|ce|cette|c['’]|ça|qui|"
        r"que|où|pourquoi|comment|"
        r"peut-être|certains|beaucoup|hier)\b",
        r"^j['’]ai\b|\b(?:a|ont|m['’]a|m['’]ont) (?:dit|demandé|répété|écrit|expliqué)\b|"
        r"^(?:[\w-]+ ){1,4}(?:dit|exige|affirme|prétend|pense|demande) (?:que|qu['’])",
        r"^(?:tu|vous) (?:dois|devez) (?:être|avoir) (?:fatigué|content|épuisé|faim|soif|raison|"
        r"fier|tort)|"
        r"\b(?:doit|doivent|dois|devez) (?:\w+ )?avoir \w+é\b|\b(?:doit|doivent) (?:\w+ )?être "
        r"(?:dans|fatigué|là|ici|parti)|\bêtre (?:tomb|caus)é",
        r"\b(?:hier|demain (?:à|matin|soir)|ce (?:matin|soir)|cet après-midi|tout de suite|"
        r"ci-joint\w*|"
        r"la semaine (?:dernière|prochaine)|cette fois|(?<!d['’])aujourd['’]hui)\b",
        r"^(?:si|quand|dès que|avant) (?:tu|vous) (?:as|avez|peux|pouvez|veux|voulez|es|êtes|"
        r"arrives?|"
        r"arrivez|pars|partez|rentres?|viens) ?(?:le temps|un moment|envie|prêt\w*|fini|là|"
        r"rentré\w*)?,",
        r"^(?:ne |n['’]|arrête d).{0,10}?\b(?:inquiè|inquié|sois|soyez|t['’]en|t['’]énerve|quitte|"
        r"bouge|crois|"
        r"ris|rire|pleure|pars|oublie|crier|m['’]en|aie|ayez|panique|hésit|fais pas|m['’]attends|"
        r"désespère|dis pas|perds)",
        r"^(?!n(?:e |['’])).*\b(?:avons|avez \w+é|était|étaient|avait|avaient|fut|(?:est|sont) "
        r"(?:passé|venu|allé|parti|arrivé)"
        r"\w*)\b",
        r"^(?:à partir d['’]\w+|désormais|dorénavant|à partir de \w+),? (?:(?:le|la|l['’]|les|mon|"
        r"ma|notre) ?"
        r"\w+ (?!doi|ne |va |vont|son)\w+|je|j['’]|il|elle|nous)\b",
        r"^(?:toujours|jamais) (?:de ma vie|cette?|ce|le|la|les|un|une|rien|plus)\b|^(?:en règle "
        r"générale|chacun)|"
        r"^chaque jour\b|\ba été\b|(?<!de )maintenant\b|^(?:tous|toutes|chaque|"
        r"aucun\w*)\b.*\b(?:est|sont|a|ont|n['’]est|"
        r"n['’]a)\b(?!.*\b(?:interdit|utc|"
        r"obligatoire|sans|avant|doi))",
        r"^(?:tiens|dis|attends|note),|^n['’](?:importe|est|y a|empêche)|^ne serait|^plus d(?:e |"
        r"['’])(?:\d|"
        r"cent|mille|deux|trois|dix|vingt|la moitié|une?)\b|^(?:pas|plus) d(?:e |['’])(?:réponse|"
        r"nouvelles?|train|"
        r"lait|temps|erreurs?|réseau|courant|pain|place|argent|neige|pluie|bruit|changement "
        r"depuis)\b|"
        r"^sans (?:doute|problème|blague|rire|intérêt|surprise|nouvelles)|^tou(?:t|s|tes) (?:va|"
        r"vont|sont|est|"
        r"s['’]est)\b",
        r"^seule?s? (?!.*\bpeu(?:t|vent)\b)|^pas (?:de|d['’]) ?(?:quoi|souci)",
    ),
    "es": (
        r"^(?:yo|él|ella|ellos|ellas|mi(?! (?:regla|preferencia))|sus? (?!respuesta|código|"
        r"mensaje)\w+|nosotros|esto|eso|esta|este|qué|"
        r"quién|cómo|por qué|dónde|quizás?|ayer|algunos|muchos|la gente|en (?:ese|aquel|mi)|nunca "
        r"digas|no mires|no puedes hablar)\b",
        r"\b(?:dijo|dice|dicen|pidió|contó|exige|exigió|afirma|cree|piensa|me han dicho) (?:que|"
        r"a)\b",
        r"^debe[sn]? (?:de )?(?:estar|ser|tener|haber)\b(?!.*\b(?:siempre|breve|conciso|cortés))|"
        r"\bdeben? de\b|\bhaber \w+(?:ado|ido)\b|"
        r"^(?:no |nunca )?(?:puedes|debes) (?:imaginar|creer|haber)",
        r"\b(?:ayer|mañana a|esta (?:mañana|tarde|noche|vez|semana)|ahora mismo|adjunto|adjunta|la "
        r"semana "
        r"pasada|el (?:lunes|martes|miércoles|jueves|viernes) pasado|este mes)\b|"
        r"(?<!partir de )(?<!desde )\bhoy\b",
        r"^(?:si|cuando) (?:puedes|quieres|(?:tienes|tengas) (?:un |tiempo|hambre|ganas)|estás "
        r"list\w|"
        r"llegas|llegues|vienes|vengas|vuelvas|puedas|quieras)\b(?!.*\bsiempre\b)",
        r"^(?:no|nunca) (?:te |me |se )?(?:preocup|olvid\w+ (?!de|cit|us|pon|inclu)|llor|tard|rías|"
        r"enfad|asust|(?:vayas|estés|seas)\b|"
        r"mueras|rindas|pierdas\b(?! de)|esperes|creas|tengas miedo|tienes (?!permiso|derecho|"
        r"autor)|en mi vida|(?:he|ha|hemos|han|había|fue|vi|"
        r"supe|sé)\b|respondi)",
        r"^sin (?:problemas?|dudas?|embargo|novedad\w*|prisa|comentarios|querer|suerte)\b|"
        r"^\w+(?:ar|er|ir) .*\bes\b",
        r"^de (?:joven|niñ[oa]|pequeñ[oa])\b",
        r"\b(?:fue|fueron|era|eran|estaba\w*|había\w*|hicimos|hizo|hicieron|tuve|tuvo|vino|"
        r"vinieron|"
        r"llegó|pasaron|falló|fallaron|cambió|respondió)\b",
        r"^siempre (?:llueve|nieva|hace|hay|est[áo]|es|son|olvid\w+|llega|me|te|se|la|el|lo|los|"
        r"las|he|"
        r"fue|nos|le|ha|han|dice|viene|pasa|fui|hemos|pued\w+|quise|tien\w+|com[eo]|duerm\w+|\w+o|"
        r"\w+mos|\w+ó)\b",
        r"^nunca (?:llueve|nieva|hace|hay|est[áo]|es|he|ha|han|se|me|te|nos|le|la|lo|\w+[óí]|viene|"
        r"llega|pasa|sabe|tien\w+|\w+mos|\w+o|usan|\w+ron)\b",
        r"^(?:solo|sólo|solamente) (?:fallan?|vinieron|hay|queda|quedan|es|son|faltan?|era|quería|"
        r"tengo|llegaron)\b",
        r"^(?:a partir de (?:ahora|hoy|mañana)|de ahora en adelante|desde (?:ahora|hoy)),? "
        r"(?:(?:estoy|voy|"
        r"tengo)\b|(?:el|la|mi|nuestr\w+) \w+ (?:abre|cierra|cuesta|trabaja|vive|empieza|sale|es|"
        r"está)\b)",
        r"^(?:todos?|todas?|cada|ning[uú]n\w*)\b.*\b(?:es|son|tienen?(?! que)|está|están|sabe|"
        r"pasan?|funciona"
        r"\w*)\b(?!.*\b(?:debe|obligatori|prohibid|sin))|^cada un[oa] de|^no pasa nada|^por regla "
        r"general",
    ),
    "zh": (
        r"^(?:我(?!希望|要求|需要|不想|不希望|更喜欢|的(?:规则|要求|名字|代码|许可|同意))|他|她|它|"
        r"咱|大家|我们(?!从不|一律|只)|他们|她们|人们|老板|医生|妈妈|爸爸|"
        r"朋友|同事|有人|谁|昨天|刚才|上次|去年|听说|据说|其实|可能|也许|我老板|我妈)",
        r"(?:说|告诉我|认为|觉得|要求)(?:过|他|她|我|大家|所有人|我们|自己)",
        r"^(?!不要|别|请|停止)[^。]*了吧?。?$|(?:过了?。?$|吗。?$|呢。?$|昨天|刚刚|上周|去年|"
        r"上个月|正在|今天(?!起|开始)|明天(?!起|开始)|马上|现在(?!起|开始|以后)|附件|附上的|"
        r"这个文件)",
        r"(?:别|不要|不用|不必)(?:再)?(?:担心|紧|急|着急|客气|介意|怕|哭|误会|生气|难过|误解|忘|走|"
        r"闹|吵|等|理|跑|逗|想太|放弃|太|"
        r"说了|伤心|害怕|灰心|失望|谢|笑|在意|见怪|慌|勉强|开玩笑)",
        r"^(?:你|您)(?:一定|肯定|必须)(?:很|是|累|饿|看|来|去|尝)|你?应该(?:看看|去|尝|试)|"
        r"必须(?:是|承认|说|来|去看)|想象|不可(?:能|思议)",
        r"的(?:牌子|标志|规则很)|从来(?:没|不)|一定(?:在|是|很|会)|(?:就|会)(?:变|亮|响|自动|停电|"
        r"关门|开门|下雨|涨)|只有[^。]*(?:失败|来|了|剩)|都(?:有|是|很|会|喜欢|通过|没|在)",
        r"(?:从现在起|从今天起|以后|今后)[，,]?(?:我|他|她|商店|店|公司|那|这家)",
        r"不停|不得不|不由得|不禁|一般来说|通常",
    ),
    "ja": (
        r"^(?:彼|彼女|彼ら|私は|私も|僕|俺|うちの|医者|上司|先生が|母|父|友人|友達|みんな|誰|昨日|"
        r"先週|去年|もしかして|たぶん|きっと|"
        r"あの|その人|妻|夫)",
        r"(?:でした|ました|かった|だった|ていた|ていました|たのです|でしょう|だろう|かもしれ\w*|"
        r"ません|と思います|たい(?:です)?|らしいです|"
        r"そうです|(?<!す)るのです|違いない|ますか|ですか|れます|えます|おります|います|あります|"
        r"なります)[。.!！]?$(?<!いけません。)(?<!いけません)(?<!なりません。)(?<!なりません)(?<!できません。)(?<!認めません。)(?<!許しません。)(?<!必要があります。)(?<!義務があります。)(?<!なっています。)(?<!しています。)(?<!見たくありません。)(?<!許されません。)(?<!認められません。)",
        r"(?:心配し|気にし|遠慮し|驚か|怒ら|忘れ|泣か|行か|諦め|悲しま|がっかりし|落ち込ま|慌て|"
        r"焦ら|笑わ|無理し|待た|悩ま|恐れ|"
        r"冗談は|死な|気を落と)(?:ないで|ずに|やめて)?",
        r"(?:昨日の|さっきの|添付|今すぐ|この(?:ファイル|件|資料|画像|文章)|今日(?!から|以降|より)|"
        r"明日(?!から|以降|より)|"
        r"来週(?!から)|今回|先ほど)",
        r"(?:看板|もう一度|今削除|だけが)|べきですよ|もっと寝|なりませんが|"
        r"止めてください(?<!を使うのは止めてください)(?<!のは止めてください)|"
        r"おいてください、暑",
        r"(?:と言[いっわ]|って言|と聞|と書いて(?:あ|い)|だそう|いつもの|(?<!のは)(?<!者は)(?:二つ|"
        r"三つ|"
        r"一つ|二人|一人)だけ|のことです|ということです)",
        r"(?:時間|暇|余裕)が(?:あれば|ある(?:とき|時|なら)|あったら)|(?:着い|戻っ|終わっ|帰っ|"
        r"よかっ|よろしかっ)たら",
    ),
}
