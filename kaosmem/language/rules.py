"""Standing rules in users' words: sentences such as "always answer in French", which hold until the user ends them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from kaosmem.language.sentences import sentence_ends
from kaosmem.types import ChatMessage, TextBlock, Trust

MAX_RULE_CHARS = 400
"""A longer sentence is not a rule. It is code or data."""

_NOT_A_REQUEST = (
    r"(?!been|being|be\b|a\b|an\b|the\b|so\b|too\b|in\b|on\b|up\b|here|there|happy|glad|good|great|"
    r"nice|fun|mind|had|"
    r"heard|saw|seen|knew|got|gave|thought|really|even|again|ready|loved?\b|my\b|your\b|his\b|her\b|"
    r"their\b|our\b|"
    r"say\b|know\b|give "
    r"up|stop\b|feel|and\b|or\b|for\b|to\b|get\b|wanted|is\b|was\b|knows?\b|more\b|"
    r"less\b|"
    r"[a-z]+(?:ing|ed)\b)[a-z]"
)
_NOT_A_BAN = (
    r"(?!worry|forget|give|know|think|be\b|let\b|miss|sweat|hesitate|stress|feel|lose|stop|want|need|"
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
            r"\b(?:всегда|никогда не) \w+(?:й|йте|и|ите|ь|ьте)\b|^\w+(?:й|йте|и|ите|ь|ьте) всегда\b",
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

# A label that says by itself that a rule follows, and one that says so only before a word of
# obligation.
_LABELLED = r"(?:\s*(?:no\.?\s*)?\d+)?\s*[:：–—]\s*"
_NO_IMPERATIVE = (
    r"(?!i\b|we\b|he\b|she\b|they\b|it\b|the\b|my\b|that\b|this\b|there\b|you\b|what|how|why|an?\b)"
)

# The verbs of what an assistant does: "you must cite" is a rule, "you must see that film" is not.
_WORK = (
    r"(?:use|share|send|delete|remove|change|modify|publish|push|deploy|commit|merge|call|access|"
    r"contact|spend|pay|buy|"
    r"order|install|edit|touch|run|disclose|reveal|mention|quote|cite|copy|store|log|write|answer|"
    r"reply|respond|include|"
    r"ask|check|follow|keep|test|document|add|sign|confirm|verify|get|stay|provide|name|mark|encrypt|"
    r"report|inform|"
    r"translate|format|explain|return|round|state|speak|address|approve|create|open|upload|download|"
    r"rename|move)\b"
)
_DE_WORK = (
    r"(?:angeben|nennen|verwenden|benutzen|nutzen|prüfen|fragen|antworten|schreiben|testen|belegen|"
    r"zitieren|löschen|"
    r"ändern|weitergeben|senden|schicken|veröffentlichen|einhalten|begründen|bestätigen|dokumentieren|"
    r"runden|buchen|"
    r"bestellen|zahlen|kontaktieren|anrufen|teilen|speichern|pushen|committen|enden|beginnen|enthalten)\b"
)
_FR_WORK = (
    r"(?:citer|utiliser|répondre|demander|écrire|vérifier|respecter|inclure|indiquer|modifier|"
    r"supprimer|contacter|"
    r"partager|envoyer|publier|effacer|changer|tester|ajouter|arrondir|commander|payer|justifier|"
    r"confirmer|signer)\b"
)
_ES_WORK = (
    r"(?:citar|usar|utilizar|responder|preguntar|escribir|verificar|comprobar|respetar|incluir|"
    r"indicar|modificar|borrar|"
    r"eliminar|contactar|compartir|enviar|publicar|cambiar|probar|añadir|redondear|comprar|pagar|"
    r"confirmar|firmar)\b"
)

_SPOKEN_CUES: Mapping[str, Sequence[str]] = {
    "en": (
        rf"^(?:[\w-]+ ){{0,2}}(?:rules?|polic(?:y|ies)|constraints?|guidelines?|"
        rf"restrictions?){_LABELLED}\S+ \S",
        r"^(?:important|attention|warning|note|caution|critical|remember|reminder)\s*[:!]\s+.*"
        r"\b(?:must|never|always|do not|don['’]t|only|no|may not|not allowed|avoid|keep|stop)\b",
        r"^(?:you|assistants?|agents?|nobody|no one|everyone|everybody) (?:must|shall|may|can|are|"
        r"should|will) "
        r"(?:not|never|only|always)\b(?! (?:be "
        r"(?:sure|surprised|serious)|sure|alone|believe|imagine|"
        r"wrong|the only|have))",
        rf"^(?:you|assistants?|agents?) (?:must|shall|cannot|can['’]t|have to|need to|"
        rf"may only) (?:also |first )?{_WORK}",
        r"^(?:you|assistants?|agents?) (?:must|have to|need "
        r"to)\b.*\b(?:every|each|before|whenever)\b",
        r"^(?:all|every|each|any|no)\b.*\b(?:must|shall|needs?|has to|have to|may|is to|"
        r"are to)\b(?! have\b)",
        r"^(?:please )?(?:stop|quit) "
        r"(?!worrying|crying|laughing|kidding|joking|staring|teasing|being|"
        r"panicking|complaining|"
        r"wasting|looking|pretending|talking nonsense)\w+ing\b|^no more \w+",
        r"^(?:please )?(?:ensure|refrain from|avoid)\b|^(?:please )?(?:make|be) sure\b.*\b(?:every|"
        r"all|each|any|no|never|only)\b",
        r"^(?:please )?keep "
        r"(?:all|every|each|any|your|the|it|them)?\b.*\b(?:under|below|short|brief|"
        r"concise|simple|private|"
        r"confidential|secret|to yourself)\b",
        rf"^(?:please )?only {_WORK}",
        r"^no\b.*\b(?:ever|without|unless|except|allowed|permitted)\b",
        rf"^{_NO_IMPERATIVE}[a-z]+ .*\b(?:unless i|unless told|unless asked|until i say|at all "
        r"times|"
        rf"without exception|"
        r"no matter what|in (?:all|every) (?:cases?|answers?|repl(?:y|ies)))\b",
        r"^(?:please )?(?:ask|check with|consult|tell|warn|inform|notify) me (?:first|whenever|"
        r"before (?:you|any|each|every|"
        r"\w+ing)|if you|each time|every time)\b",
        rf"^{_NO_IMPERATIVE}[a-z]+ .*\bwithout "
        r"(?:my|asking|prior|explicit|written|approval|permission)\b",
        r"^(?!he\b|she\b|they\b|we\b|i\b).*\b(?:is|are) (?:strictly )?(?:forbidden|prohibited|"
        r"not (?:allowed|permitted)|"
        r"off[- ]limits|mandatory)\b",
        r"^i (?:don['’]t|do not|never) want (?:you to|to see)\b|^i (?:expect|require) (?:you|all|"
        r"every|each)\b|^i insist\b",
        r"^prefer \w+.* (?:over|to)\b|^use .*(?:, not |, never |instead of|rather than|everywhere|"
        r"for all|for every)",
        r"^treat\b.*\bas (?:confidential|secret|private)|^leave\b.*\b(?:alone|as (?:it|they) (?:is|"
        r"are)|untouched)\b",
    ),
    "de": (
        rf"^(?:\w+ )?(?:\w*regeln?|richtlinien?|vorgaben?|vorschrift(?:en)?|"
        rf"anweisung(?:en)?){_LABELLED}\S+ \S",
        r"^(?:wichtig|achtung|hinweis|merke?|warnung)\s*[:!]\s+.*"
        r"\b(?:muss|musst|müssen|darf\w*|dürfen|nie|niemals|immer|kein\w*|nicht|nur|verboten|soll\w*)\b",
        r"^(?:du|sie|ihr|man|niemand) (?:darfst|dürfen|dürft|darf|sollst|sollt|sollen|soll)\b.*"
        r"\b(?:nicht|nie|niemals|keine?[mnrs]?|nur|immer|ausschließlich)\b",
        r"^(?:du|sie|ihr|man) "
        rf"(?:musst|müssen|müsst|muss|sollst|sollen)\b.*(?:{_DE_WORK}|\b(?:immer|"
        rf"stets|vorher|jedes mal)\b)",
        r"^(?:alle|jede\w*|sämtliche\w*|kein\w*)\b.*\b(?:müssen|muss|dürfen|darf|sollen|soll|braucht|"
        r"brauchen)\b(?! (?:mal|irgendwann)\b)",
        r"^(?:bitte )?kein\w* (?!ahnung|sorge|problem|zeit|lust|angst|wunder|frage|panik|chance|"
        r"antwort|idee|eile)\w+.*"
        r"\b(?:ohne|mehr in|mehr an|mehr bei|außer|bevor|in|an)\b",
        r"^(?:auf keinen fall|keinesfalls|unter keinen umständen|niemals|nie|immer|stets|"
        r"grundsätzlich|ausschließlich|"
        r"nur (?!noch|kurz|mal|ein|zwei|drei))\b.*\w+en[.!]?$",
        r"^(?!das\b|er\b|ich\b|es\b|wir\b).*\b(?:auf keinen fall|unter keinen "
        r"umständen|keinesfalls)\b",
        r"^hör(?:e|en sie)? (?:bitte )?auf\b(?!.*\b(?:weinen|lachen|jammern)\b)",
        r"^ab (?:heute|morgen|sofort|jetzt)\b(?! (?:habe|bin|ist|sind|haben|wird)\b)",
        r"^(?!alle|diese|meine|eine|keine|heute|gerne?|sie\b|die\b|viele|beide|danke|schade)(?:bitte )?"
        r"(?:\w+e|\w+en sie|nutz|verwend|frag|antwort|schreib|gib|nimm|lass|halt|sprich|zeig|mach|"
        r"bleib|lösch) "
        r"(?:\w+ ){0,4}(?:immer|nie|niemals|stets|nur|ausschließlich|nichts|keine?n?)\b",
        r"\b(?:ist|sind|bleibt) (?:streng(?:stens)? )?(?:verboten|untersagt|nicht (?:erlaubt|"
        r"gestattet)|tabu|pflicht)\b",
        r"^(?:bitte )?frag(?:e|en sie)? mich\b.*\b(?:bevor|vor|wenn|zuerst|erst|immer)\b",
        r"^(?!er\b|sie\b|ich\b|wir\b|ohne\b)\w+.*\bohne (?:rückfrage|freigabe|erlaubnis|zustimmung|"
        r"genehmigung|mich zu fragen)\b",
        r"^(?:bitte )?(?:achte|achten sie|stelle?|stellen sie|sorge?|sorgen sie) (?:bitte "
        r")?(?:darauf|"
        r"sicher|dafür)\b",
        r"^ich (?:will|möchte) (?:nie|keine?n?)\b.*\b(?:sehen|mehr|lesen)\b|^vermeide\w*\b",
    ),
    "fr": (
        rf"^(?:\w+ ){{0,2}}(?:règles?|consignes?|directives?|politique|contraintes?)(?: (?:de|"
        rf"d['’])\s?\w+)?{_LABELLED}\S+ \S",
        r"^(?:important|attention|note|rappel|avertissement)\s*[:!]\s*.*"
        r"\b(?:dois|devez|jamais|toujours|ne|aucune?|seulement|interdit\w*|uniquement)\b",
        r"^(?:tu|vous|on) (?:ne "
        r"|n['’])(?:dois|devez|doit|peux|pouvez|peut)\b.*\b(?:pas|jamais|plus|"
        r"que|aucune?)\b",
        rf"^(?:tu|vous) (?:dois|devez)\b.*(?:{_FR_WORK}|\b(?:toujours|chaque fois|d['’]abord)\b)",
        r"^(?:tous|toutes|toute?|chaque|aucune?)\b(?! (?:idée|problème|souci)).*"
        r"\b(?:doit|doivent|ne peut|ne peuvent|ne sera|sans|avant)\b(?! (?:mourir|être (?:fatigué|"
        r"content))\w*)",
        r"^(?:ne|n['’]) ?(?!t['’]inqui|vous "
        r"inqui|m['’]|sais|quitte|bouge|crois|pas\b|ris|pleure|pars|"
        r"oublie)[\w'’-]+"
        r"(?: [\w'’-]+){2,} ?\b(?:jamais|rien|aucune?|que|pas|plus|sans)\b",
        r"^(?:ne|n['’]) ?(?!t['’]inqui|vous inqui|m['’]|sais|quitte|bouge|crois|ris|pleure|pars|"
        r"oublie)[\w'’-]+ "
        r"(?:jamais|rien|aucune?|que|pas|plus) \w+ \w+",
        r"^(?:ne )?(?:jamais|toujours)\b \w+(?:er|ir|re|oir)\b|^ne (?:jamais|pas|plus) \w+",
        r"^arrêt(?:e|ez) (?:de|d['’])(?! ?(?:pleurer|rire|crier))|^cess(?:e|ez) de|^évit(?:e|ez)\b",
        r"^plus (?:de|d['’]|aucune?) ?\w+ (?:dans|sur|en|pour|à|s['’]il)\b",
        r"\b(?:en aucun cas|sous aucun prétexte|en toutes circonstances)\b",
        r"^à (?:partir|compter) (?:d['’]aujourd['’]hui|de demain|de ce jour)\b(?!,? (?:je|il|elle) "
        r")",
        r"\b(?:est|sont) (?:strictement |formellement "
        r")?(?:interdite?s?|défendue?s?|obligatoires?)\b|"
        r"^interdiction d",
        r"^il faut toujours\b|^il ne faut (?!pas "
        r"(?:exagérer|rêver|s['’]inquiéter))\b.*\b(?:jamais|pas)\b",
        r"^demand(?:e|ez)[- ]moi (?:avant|d['’]abord|toujours|si)\b",
        r"^(?!il\b|elle\b|je\b|j['’]|nous\b).*\bsans (?:me demander|(?:mon )?accord|autorisation|"
        r"validation|permission)\b",
        r"^(?:veille|veillez|assure[- ]toi|assurez[- ]vous|fais en sorte|faites en sorte) ",
        r"^(?:utilise|utilisez|réponds|répondez|écris|écrivez)\b.*\b(?:uniquement|seulement|"
        r"exclusivement|toujours)\b",
    ),
    "es": (
        rf"^(?:\w+ ){{0,2}}(?:reglas?|normas?|directri(?:z|ces)|política|instrucci(?:ón|ones)|"
        rf"restricci(?:ón|ones))"
        rf"(?: de \w+)?{_LABELLED}\S+ \S",
        r"^(?:importante|atención|nota|aviso|recordatorio|ojo)\s*[:!]\s*.*"
        r"\b(?:debes?|deben|nunca|siempre|no|ning\w+|solo|sólo|prohibid\w+)\b",
        r"^(?:siempre|nunca|no) (?:debes|deben|debéis|puedes|pueden|tienes que|se "
        r"(?:puede|debe|permite))\b"
        r"(?! (?:de )?(?:estar|ser|haber|creer|imaginar))",
        rf"^(?:debes|debe usted|deben|debéis|tienes que)\b.*(?:{_ES_WORK}|\b(?:siempre|cada vez|"
        rf"primero)\b)",
        r"^(?:todos?|todas?|cada|ning[uú]n\w*)\b.*\b(?:debe|deben|tienen? que|pueden?|sin|"
        r"antes)\b(?! morir)",
        r"^(?:usa|use|utiliza|utilice|responde|responda|contesta|escribe|escriba|instala|modifica|"
        r"cita|habla|trabaja) "
        r"(?:\w+ ){0,3}(?:siempre|solo|sólo|solamente|únicamente|exclusivamente)\b",
        r"^(?:solo|sólo|solamente|únicamente) "
        r"(?:usa|use|utiliza|puedes|responde|escribe|modifica)\b",
        r"^(?:deja|deje|dejen|para|paren) de (?!llorar|reír|gritar|mirarme)\w+|^evit(?:a|e|en)\b",
        r"^no más \w+ (?:en|de|para|a|por)\b|^nunca \w+(?:es|as)\b",
        r"^no (?!tienes|eres|quieres|sabes|vienes|haces|ves|crees|entiendes|estás|vas|has|llores|"
        r"tardes|te preocupes|"
        r"te olvides)\w+(?:es|as)(?: \w+){2,}",
        r"\b(?:bajo ning[uú]n (?:concepto|pretexto)|en ning[uú]n caso|bajo ninguna circunstancia)\b",
        r"^(?:a partir de (?:hoy|mañana|este momento)|desde hoy)\b(?!,? (?:estoy|voy|tengo))",
        r"\b(?:está|queda|están|quedan) (?:\w+mente )?prohibid\w+|\bes obligatorio\b|^prohibido \w+",
        r"^(?:pregúntame|consúltame|avísame|pregúnteme|consulta conmigo)\b.*\b(?:antes|primero|"
        r"siempre|si|cuando)\b",
        r"^(?!él\b|ella\b|yo\b).*\bsin (?:preguntarme|consultarme|(?:mi )?(?:permiso|aprobación|"
        r"autorización))\b",
        r"^(?:asegúrate|asegúrese|asegúrense|procura) ",
    ),
    "zh": (
        rf"^[^，。：:]{{0,6}}(?:规则|规定|守则|准则|原则|政策|约束){_LABELLED}\S{{3,}}",
        r"^(?:重要|注意|警告|提醒|切记|记住)\s*[:：!！].*(?:不能|不要|不得|必须|只|禁|勿|都要|别|一律|先)",
        r"^(?!我|他|她|咱|大家)[^。]*(?:必须|务必)(?!是|看|来|去)|一定要(?:先|注明|使用|检查|确认|写)",
        r"不得(?!不|了|已)|不准|不许|禁止|严禁|切勿|请勿",
        r"(?:永远|绝对|千万|坚决|任何情况下都?)(?:不要|别|不能|不可|不得)(?!忘|放弃|担心)",
        r"^(?:你|您|所有|每个|每次|任何|一切|全部).{0,14}(?:不能|不可|不要|应当|都要|都得|只能|都用)(?!想象|相信|怪|理解)",
        r"^请?(?:不要|别|不用再)(?!担心|紧|急|着急|客气|介意|怕|哭|误会|生气|难过|误解|忘|走|闹|吵|等|理|跑|逗|想|放弃|太|说了)",
        r"(?:始终|总是|一直|永远|一律|统一)(?:用|使用|以|保持|回答|检查|写|先|只)",
        r"^(?!我|他|她)[^。]*只(?:能|许|可|准|使用|允许)",
        r"(?:从|自)(?:现在|今天|今|即日|此|明天)(?:起|开始)[，,]?(?!我)|(?:今后|以后).{0,8}(?:要|请|都|不|用|每|别|必|只|先|一律)",
        r"之?前.{0,6}(?:先|必须|要|请).{0,6}(?:问我|征求|确认|告诉我|通知我|经我)",
        r"(?:未经|没有).{0,10}(?:批准|同意|许可|允许|授权).{0,8}(?:不|禁|别)",
        r"^请?(?:避免|停止)(?:使用|再)?|^请?(?:确保|保证)",
    ),
    "ja": (
        rf"^[^、。：:]{{0,6}}(?:ルール|規則|方針|ポリシー|制約|注意事項|約束){_LABELLED}\S{{3,}}",
        r"^(?:重要|注意|警告)\s*[:：!！].*(?:いけ|なら|ください|こと|禁止|必ず|ない)",
        r"(?:て|で)は(?:いけ|なら|だめ|ダメ)(?!.*(?:でした|かった))",
        r"(?:必ず|すべて|全て|常に|毎回|つねに).*(?:なければ|なくては|ねば)(?:なら|いけ)(?:ない|ません)(?!でした|かった|でしょう)",
        r"(?:禁止|厳禁)(?:です|とする|とします|します|する)?[。.!！]?$",
        r"(?:必ず|絶対に?|常に|いつも|毎回|決して|場合でも|場合も|今後|今日から|以後|以降).*"
        r"(?:ください|下さい|こと|しなさい|ないで|するな|てね)[。.!！]?$",
        r"(?<!冗談は)(?:やめて|止めて|控えて|避けて)(?:ください|下さい|ね|くれ)",
        r"(?<!心配し)(?<!気にし)(?<!遠慮し)(?<!驚か)(?<!怒ら)(?<!忘れ)(?<!泣か)(?<!行か)(?<!諦め)(?:ないで|ずに)(?:ください|下さい)",
        r"(?<!と)(?<!いう)(?:る|う|く|す|む|つ|ぶ|ぬ|ない)こと[。.!！]?$",
        r"(?:だけを?|のみを?)(?:使|用|参照|引用|返|書).*(?:ください|下さい|こと)[。.!！]?$",
        r"前に.*(?:聞いて|確認して|相談して|許可を).*(?:ください|下さい|こと)[。.!！]?$",
    ),
}

RULE_CUES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        language: (*PLAIN_CUES.get(language, ()), *_SPOKEN_CUES.get(language, ()))
        for language in dict.fromkeys((*PLAIN_CUES, *_SPOKEN_CUES))
    }
)
"""Patterns of rules by language, as regular expressions that ignore case.

A sentence of a user that matches one is a rule.
Bullets, numbers and marks of Markdown before and in a sentence are left out first.
`Summarizer(rule_cues={**RULE_CUES, "sv": (r"^(?:alltid|aldrig) ",)})` adds a language.
"""

# A search for these takes a tenth of the patterns' time. Each rule of PLAIN_CUES in Latin letters
# has one of them.
_HINTS = (
    r"always|never|do not|don['\u2019]t|please|you to |forward|henceforth|from (?:now|here|this "
    r"point|"
    r"today)|future"
    r"|i ask|no circumstances|(?:every|each) time|whenever you|ab (?:jetzt|sofort)|von "
    r"(?:jetzt|nun)|"
    r"in zukunft"
    r"|k\u00fcnftig|bitte|immer|nie|dor\u00e9navant|d\u00e9sormais|l['\u2019]avenir|de maintenant|"
    r"toujours|jamais"
    r"|merci de|s['\u2019]il |ahora|adelante|lo sucesivo|siempre|nunca|jam\u00e1s|por favor"
)
_HINT = re.compile(_HINTS)
_LATIN = re.compile(r"[\x00-\u024f\u2000-\u22ff]*")
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_QUESTION_ENDS = ("?", "\uff1f", "\u061f")
_MARKDOWN = re.compile(r"[*_`]{1,3}|^[\s#>]+")
_TOKEN = re.compile(r"\\.|[\[\]()|]", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*•·]|\(?\d{1,2}[.)])\s*")
_NUMBER = re.compile(r"\(?\d{1,2}[.)]")
_HEADING = re.compile(
    r"^(?:[\w-]+ ){0,3}(?:rules?|guidelines?|constraints?|regeln|\w+regeln|vorgaben|règles|consignes|"
    r"reglas|normas)"
    r"(?: [\w-]+){0,3}\s*:?$|^[^，。、]{0,6}(?:规则|规定|要求|守则|ルール|規則|注意事項)\s*[:：]?$",
    re.IGNORECASE,
)


def rules_in(text: str, cues: Mapping[str, Sequence[str]] = RULE_CUES) -> Iterator[str]:
    r"""Yield the standing rules of a user's text in order.

    Questions, quoted lines and code hold none.

    Each item of a list under a heading such as "Rules:" is a rule.

    >>> list(rules_in("Thanks! From now on answer in French. What is the plan?"))
    ['From now on answer in French.']
    >>> list(rules_in("## Rules\n- English alone\n- short answers"))
    ['- English alone', '- short answers']
    """
    may_be_rule = _is_hinted if cues is PLAIN_CUES else bool
    if not may_be_rule(text):
        return
    patterns = _pattern(tuple(chain.from_iterable(cues.values())))
    begin = 0
    is_listed = False
    text = _fence_free(text)
    for end in (*sentence_ends(text), len(text)):
        sentence = text[begin:end].strip()
        is_line = text[:begin].endswith("\n")
        if _NUMBER.fullmatch(sentence):
            continue  # of a list: it belongs to the sentence after it
        begin = end
        if not sentence:
            continue
        is_item = _BULLET.match(sentence) is not None
        plain = _plain(sentence)
        if is_line and not is_item:
            is_listed = False
        is_statement = len(sentence) <= MAX_RULE_CHARS and not sentence.endswith(_QUESTION_ENDS)
        if cues is not PLAIN_CUES and _HEADING.match(plain):
            is_listed = True
        elif is_statement and (
            (is_listed and is_item) or _is_rule(sentence, plain, patterns, may_be_rule)
        ):
            yield sentence


def _is_rule(sentence: str, plain: str, cues: _Cues, may_be_rule: Callable[[str], object]) -> bool:
    """Return whether a sentence matches, as it is written or without its marks."""
    if not may_be_rule(sentence):
        return False
    return cues.match(sentence) or (plain != sentence and cues.match(plain))


def _plain(sentence: str) -> str:
    """Return a sentence without its bullet, its number and its marks of Markdown."""
    return _MARKDOWN.sub("", _BULLET.sub("", _MARKDOWN.sub("", sentence))).strip()


def rules_of(message: ChatMessage, cues: Mapping[str, Sequence[str]] = RULE_CUES) -> Iterator[str]:
    """Yield the standing rules of a message: only a user whom the application trusts can set one."""
    if message.role == "user" and message.authority >= Trust.USER:
        for block in message.blocks:
            if isinstance(block, TextBlock):
                yield from rules_in(block.text, cues)


def _is_hinted(text: str) -> bool:
    return _HINT.search(text.casefold()) is not None or not _LATIN.fullmatch(text)


def _fence_free(text: str) -> str:
    return _FENCED.sub("\n", text) if "```" in text or ">" in text else text


class _Cues(NamedTuple):
    """The patterns at the beginning of a sentence, which are tried once, and those anywhere in it."""

    beginning: re.Pattern[str]
    anywhere: re.Pattern[str]

    def match(self, sentence: str) -> bool:
        return bool(self.beginning.match(sentence) or self.anywhere.search(sentence))


@lru_cache(maxsize=16)
def _pattern(cues: tuple[str, ...]) -> _Cues:
    parts = list(chain.from_iterable(map(_alternatives, cues)))
    beginning = [part for part in parts if part.startswith("^")]
    anywhere = [part for part in parts if not part.startswith("^")]
    return _Cues(_joined(beginning), _joined(anywhere))


def _joined(parts: Sequence[str]) -> re.Pattern[str]:
    # Without any part, a pattern that matches nothing.
    return re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)", re.IGNORECASE)


def _alternatives(cue: str) -> Iterator[str]:
    """Yield the alternatives of a pattern outside of its groups and classes."""
    begin = depth = 0
    in_class = False
    for token in _TOKEN.finditer(cue):
        sign = token[0]
        if sign == "]":
            in_class = False
        elif in_class or sign.startswith("\\"):
            continue
        elif sign == "[":
            in_class = True
        elif sign == "|" and depth == 0:
            yield cue[begin : token.start()]
            begin = token.end()
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    yield cue[begin:]
