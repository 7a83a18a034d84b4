"""How people say that something has given way to something else: patterns over one sentence, in five languages. Pure.

A pattern's group ``old`` is what went, ``new`` what came in its place, if the sentence tells. ``contrast`` marks what
is also said in ordinary standing rules ("use spaces instead of tabs").
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from actrone_memory._lexical import fold, stem
from actrone_memory._statements import HAN

_LETTER = rf"(?-i:[^\W{HAN}])"
"""Case-sensitive, or compiling would try the case of each of 27,000 characters, for two seconds in all."""
_REST_OF_A_NAME = rf"@?{_LETTER}++(?:[-./:@]++{_LETTER}++)*(?:\+\+|#)?"
NAME = rf"(?<!{_LETTER})(?<!{_LETTER}[-./:@]){_REST_OF_A_NAME}"
"""A word, or a whole identifier or path with its joints; a Chinese character ends it."""

_PHRASE = rf"{NAME}(?: (?-i:(?=[A-Z0-9])){_REST_OF_A_NAME}){{0,2}}"
"""A name of up to three words, the later ones capitalised or numbers: Jest, GitHub Actions, Python 3.9."""

_NAMED = r"(?-i:(?=[A-Z0-9@]|\w+[-./_]\w))"
"""Looks ahead to what can be nothing but a name."""

# Groups are not possessive: Python before 3.11.5 then loses its place in the text.
_ARTICLES = r"(?:(?:the|our|its|any|old|legacy|plain|d[aei][srenm]|unser\w*|l[eao]s?|el) )*"
OLD = rf"{_ARTICLES}(?P<old>{_PHRASE})(?:(?: (?:library|package|dependency|server|framework|gem|plugin))\b)?"
NEW = rf"{_ARTICLES}(?P<new>{_PHRASE})"
_BEFORE = rf"(?:(?P<new>{_PHRASE}), (?:and |but |und )?)?"
"""What came, told just before what went: "with Vitest, no longer with Jest"."""

_SINCE = r"(?: (?:now|finally|fully|completely|since|also|nun|jetzt|inzwischen|damit))?"
_ENDED = (
    "removed|dropped|retired|deprecated|replaced|superseded|abandoned|phased out|switched off|turned off|"
    "decommissioned|discontinued|shut down"
)
_ABGESCHAFFT = "abgelöst|abgeschafft|abgeschaltet|abgekündigt|ausgemustert"
_GEWECHSELT = "umgestellt|umgestiegen|gewechselt|migriert|umgezogen"
_VIA = r"(?:use|uses|using|supports?|needs?|requires?|(?:\w+ )?(?:with|via|through|from|to|on|by|in|against))"


class Manner(NamedTuple):
    """Ways of one language to say it. A casefolded text without any of the ``hints`` has none of them."""

    hints: tuple[str, ...]
    patterns: tuple[str, ...]
    contrast: bool = False

    def compiled(self) -> tuple[re.Pattern[str], ...]:
        """The patterns, compiled with the first text that has a hint of this manner: each takes milliseconds."""
        return _compiled(self.patterns)


@cache
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _manner(hints: str, *patterns: str, contrast: bool = False) -> Manner:
    return Manner(tuple(hints.split("|")), patterns, contrast)


_ENGLISH = _manner(
    "moved|migrated|switched|changed|ported|converted|replace|supersede|removed|dropped|abandoned|"
    "retired|deprecated|left|ditched|stopped using|rid of|gave up|phased out|no longer|any longer|"
    "anymore|any more|turned off|decommissioned|discontinued|shut down|gone|obsolete|history|abolished",
    # "are moved from" tells a routine, "moved from" an event
    r"(?<!\bis )(?<!\bare )(?<!\bbe )\b(?:moved|migrated|switched|changed|ported|converted)"
    rf"(?P<object>(?: [^\s,;]+){{0,4}}?) from {OLD}(?: to {NEW})?",
    rf"(?<!\bis )(?<!\bare )(?<!\bbe )\breplaced {OLD} (?:with|by) {NEW}",
    rf"{NEW} (?:replaces|replaced|has replaced|have replaced|supersedes) (?!by |with ){OLD}",
    rf"\b(?:we|has|have|team){_SINCE} (?:removed|dropped|abandoned|retired|deprecated|left|ditched) {OLD}"
    rf"(?: in favou?r of {NEW})?",
    rf"\b(?:stopped using|got rid of|gave up|phased out) {OLD}(?: in favou?r of {NEW})?",
    rf"{_BEFORE}\bno longer (?:{_VIA} |{_NAMED}){OLD}",
    rf"\b(?:not|n't) use {OLD} any ?(?:more|longer)\b",
    rf"{OLD} (?:was|were|has been|have been|got){_SINCE} (?:{_ENDED})\b(?: (?:by|with|in favou?r of) {NEW})?",
    rf"{OLD} (?:is|are){_SINCE} (?:deprecated|gone|retired|obsolete|history|abolished|superseded|"
    r"no longer (?:used|supported|allowed|needed|in use|maintained|available|required)|"
    r"not used any ?(?:more|longer))\b",
    rf"{OLD} (?:may|must|should|can|shall) no longer be used\b",
)
_GERMAN = _manner(
    "nicht mehr|umge|umstieg|wechsel|migriert|abge|ausgemustert|ersetzt|entf|gestrichen|veraltet|löst",
    rf"{_BEFORE}\bnicht mehr (?:(?:mit|über|per|auf|in|aus|via|gegen|bei|von|als|unter) |{_NAMED}){OLD}",
    rf"\b(?:nutzen|verwenden|benutzen) {OLD} nicht mehr\b",
    rf"\bvo[nm] {OLD} (?:auf|zu|zum|zur|nach) {NEW}\b(?P<object>[^.;]*?)\b(?:{_GEWECHSELT})\b",
    rf"\b(?:{_GEWECHSELT}|umstieg|wechsel) vo[nm] {OLD} (?:auf|zu|zum|zur|nach) {NEW}",
    rf"{OLD} (?:wurden?|worden){_SINCE} (?:durch {NEW} )?(?:{_ABGESCHAFFT}|ersetzt|entfernt|gestrichen)\b",
    rf"{OLD} (?:ist|sind){_SINCE} (?:durch {NEW} )?(?:{_ABGESCHAFFT}|veraltet)\b",
    rf"{OLD} (?:wird|werden|darf|dürfen){_SINCE} nicht mehr "
    r"(?:verwendet|genutzt|benutzt|eingesetzt|unterstützt|gebraucht)\b",
    rf"{OLD} (?:entfällt|entfallen)\b",
    rf"{NEW} löst {OLD} ab\b",
    rf"{NEW} ersetzt (?!durch ){OLD}",
)
_FRENCH_AND_SPANISH = _manner(
    "utilis|été|obsol|déprécié|passé|migré|basculé|ya no|migra|pasa|cambia|fue|sido",
    rf"\bn['’]utilis\w+ plus {OLD}",
    rf"{OLD} (?:a|ont) été (?:remplacé|supprimé|retiré|abandonné)\w*(?: par {NEW})?",
    rf"{OLD} (?:est|sont) (?:obsolète|déprécié)\w*",
    rf"\b(?:passée?s?|migrée?s?|basculé) de {OLD} (?:à|vers) {NEW}",
    rf"\bya no (?:usamos|se usa|usa|utilizamos|se utiliza|con) {OLD}",
    rf"{OLD} ya no se (?:usa|utiliza)\b",
    rf"\b(?:migramos|pasamos|cambiamos|migrado|pasado|cambiado) de {OLD} a {NEW}",
    rf"{OLD} (?:fue|fueron|ha sido|han sido) (?:eliminad|reemplazad|retirad|sustituid)\w+(?: por {NEW})?",
)
_CHINESE = _manner(
    "不再|迁移|切换|更换|替换|升级|转|换|改|弃用|废弃|停用|淘汰|移除|下线|删除|取代|替代",
    rf"(?:(?P<new>{_PHRASE}) ?[，,、] ?)?而?不再(?:使用|采用|支持|依赖|通过|用)? ?{OLD}",
    rf"[从由将把] ?{OLD} ?(?:已经?|全部|统一|全面)*(?:迁移|切换|更换|替换|升级|转|换|改)(?:到|至|为|成|用) ?{NEW}",
    rf"(?:已经?(?:弃用|废弃|停用|淘汰|移除)|(?:弃用|废弃|停用|淘汰|移除)了) ?{OLD}",
    rf"{OLD} ?(?:现已|已经|已)(?:全部|全面|正式)?(?:被 ?(?:{NEW} ?)?)?(?:移除|下线|弃用|废弃|删除|停用|淘汰|替换|取代)",
    rf"{OLD} ?(?:现在)?不再(?:使用|支持|维护)",
    rf"{OLD} ?被 ?{NEW} ?(?:取代|替换|替代)",
    rf"{NEW} ?(?:取代|替代|替换)了 ?{OLD}",
)
_CONTRAST = _manner(
    "instead of|rather than|in place of|statt|anstelle|au lieu|plutôt|en lugar|en vez|代替|替代|取代|而不是|而非",
    rf"(?:(?P<new>{_PHRASE}),? )?\b(?:instead of|rather than|in place of|anstatt|statt|anstelle von|"
    rf"au lieu de|plutôt que|en lugar de|en vez de) {OLD}",
    rf"(?:(?P<new>{_PHRASE}) ?[，,]? ?)?(?:代替|替代|取代|而不是|而非) ?{OLD}",
    contrast=True,
)
MANNERS = (_ENGLISH, _GERMAN, _FRENCH_AND_SPANISH, _CHINESE, _CONTRAST)

POINTING = re.compile(r"\b(?:this|these|that|those|dies\w*|ce|cette|ces|est[ae]s?)\b|[此该这]", re.IGNORECASE)
"""With a name that is clear only to who was there."""

UNCERTAIN = re.compile(
    r"\b(?:if|unless|until|when|once|before|after|while|will|plans?|planned|planning|going to|consider\w*|maybe|"
    r"perhaps|might|could|would|should we|soon|later|partly|partially|mostly|some|only|merely|never|not|"
    r"wenn|falls|bis|sobald|solange|bevor|nachdem|planen|geplant|wollen|demnächst|bald|vielleicht|nur|teilweise|"
    r"größtenteils|nie|niemals|kein\w*|si|quand|cuando|solo|sólo|seulement)\b|n't\b|\?|"
    "如果|若|当(?!前|下)|之前|之后|计划|打算|考虑|可能|准备|即将|部分|不要|没有|尚未|请勿|不能|不得|只|仅",
    re.IGNORECASE,
)
"""Conditions, plans, parts and negations: what stands after them in a sentence is no news of an end."""

PARTIAL = re.compile(
    r"\b(?:partly|partially|mostly|only|soon|next (?:week|month|quarter|year)|teilweise|nur|größtenteils|demnächst)\b|"
    "部分|只|仅",
    re.IGNORECASE,
)
"""What stands after the news and takes half of it back."""

LINGERING = re.compile(
    r"\b(?:legacy|still|until|except|remains?|keeps?|stays?|noch|außer|weiterhin|bleibt|bleiben|altsystem\w*|encore|sauf|"
    r"todavía|salvo)\b|仍|除了|除外|除非|遗留",
    re.IGNORECASE,
)
"""Said with the news, it leaves room for what went; an old memory that says it outlives the rule."""

LIMITED = re.compile(r"\b(?:only|besides|also|as well|bis|nur|auch)\b|只|仅|还", re.IGNORECASE)
"""A memory about one use among several says too little to be answered by news of the others."""

REJECTED = re.compile(
    r"(?:\b(?:no|not|never|nor|without|avoid|against|instead of|rather than|in place of|unlike|don't|forbid\w*|ban\w*|"
    r"nicht|kein\w*|nie|niemals|ohne|statt|anstatt|gegen|verboten|sans|sin|jamais|nunca)\b|n't\b|不|勿|禁|避免|而非)"
    r"[^.;:,。；：，]*(?:,[^,\s]* ?\S+)*,? ?(?:(?:or|and|nor|oder|und) )?$",
    re.IGNORECASE,
)
"""What stands before a name that a memory turns down."""

REFUSED = re.compile(
    r"^[^.;:,。；：，]*?(?:\b(?:not|never|no|forbidden|banned|prohibited|rejected|disallowed|deprecated|removed|nicht|"
    r"verboten|untersagt|unzulässig|interdit\w*|prohibid\w*)\b|n't\b|不|禁|勿|弃用)",
    re.IGNORECASE,
)
"""What stands after a name that a memory turns down."""

PAST = re.compile(
    r"\b(?:was|were|had|did|been|born|used to|visited|went|wurden?|waren?|hatten?|worden|fue|était)\b|曾|过去|当时",
    re.IGNORECASE,
)
"""A memory of something past is no rule that could cease to hold."""

LOCATIVE = re.compile(
    r"\b(?:in|inside|within|under|for the|im|innerhalb|für die|für den|dans|en)\b|在|中", re.IGNORECASE
)
"""A memory that speaks of a part only."""

_USING = (
    r"(?:\b(?:with|via|using|uses?|used|through|by|on|mit|per|über|nutzen|nutzt|verwenden|verwendet|avec|con|usa\w*|"
    r"utili[sz]\w+)|使用|采用|用|通过) ?"
)
INSTRUMENT = re.compile(rf"{_USING}$", re.IGNORECASE)
"""What stands before the bare name of a tool."""

BUILT_ON = re.compile(
    rf"(?:{_USING}|\b(?:is|are|ist|sind|est|es) |是 ?|为 ?)(?:(?:the|our|a|an|dem|der|den|das|die) )?$", re.IGNORECASE
)
"""What stands before what is used, or what something is."""

SUCCESSOR = re.compile(
    r"(?P<before>\b(?:with|via|using|uses?|is|are|runs? on|goes? through|come from|"
    r"mit|nutzen|nutzt|verwenden|avec|con) "
    rf"|[使采改]?用 ?){_PHRASE}",
    re.IGNORECASE,
)
"""What came, told in a clause before what went: "dates use Luxon now, Moment.js was removed"."""

AFTER_NAME = re.compile(
    rf"\s*(?:$|[.,;:!?()。，；]|(?-i:[{HAN}])|(?:and|or|in|for|to|at|as|from|und|oder|für|et|y|pour|para)\b|(?:ge|er|ver)\w+[.!]?$|\w+iert[.!]?$)",
    re.IGNORECASE,
)
"""What stands after the name of a tool, but not within a longer name."""

SUBJECT_END = re.compile(
    r"\b(?:is|are|was|were|has|have|must|should|may|can|will|goes?|of|in|for|with|on|to|from|by|via|through|at|runs?|"
    r"uses?|lives?|sits?|comes?|works?|that|which|ist|sind|werden|wird|müssen|muss|laufen|läuft|von|für|mit|auf|über|im|"
    r"liegen|liegt|nutzen|nutzt|verwenden|verwendet|entstehen|kommen|est|sont|avec|pour|utilisent|se|son|con|para|usan)\b|"
    "使用|采用|用|由|以|在|通过|的|必须",
    re.IGNORECASE,
)
"""The first of these ends the subject of a sentence, well enough."""

REASON = re.compile(
    r"\b(?:because|since|so that|due to|thanks to|weil|damit|denn|wegen|parce que|porque)\b|因为|以便|由于|避免",
    re.IGNORECASE,
)
"""What follows gives the reason and narrows nothing."""

WHOLE = frozenset(
    """project repository repo code codebase everything everywhere throughout whole entire all now nowadays currently
    today month week year version completely fully entirely accordingly please instead default always since
    projekt überall alles ab sofort seit heute künftig durch inzwischen jetzt nun stattdessen komplett
    désormais partout maintenant ahora siempre proyecto
    run written used made created built geschrieben erzeugt erstellt verwendet genutzt benutzt eingesetzt gebaut gemacht
    utilisé écrit escrito usado""".split()
)
"""Words after the news that leave it whole; the participles belong to its verb."""


@cache
def whole_stems() -> frozenset[str]:
    """The stems of `WHOLE`."""
    return frozenset(stem(fold(word)) for word in WHOLE)


NUMBER_WORDS = {
    fold(word): str(value)
    for words in (
        "one two three four five six seven eight nine ten",
        "ein zwei drei vier fünf sechs sieben acht neun zehn",
    )
    for value, word in enumerate(words.split(), 1)
} | dict(zip("两二三四五六七八九十", ("2", "2", "3", "4", "5", "6", "7", "8", "9", "10"), strict=True))
SAME_WORDS = NUMBER_WORDS | {"max": "maximum", "min": "minimum"}
HAN_NUMERAL = re.compile("[两二三四五六七八九十](?=[个次天年名位行])")
A_NUMBER = re.compile(r"(?P<value>\d+(?:[.,]\d+)*)(?P<unit>[a-z]{0,3})")

MEASURING = re.compile(
    r"^(?:is|are|most|least|than|max|maximum|min|minimum|limit|limited|exactly|within|every|below|above|under|over|"
    r"use|uses|needs?|requires?|allows?|keep|equals?|runs|"
    r"ist|sind|hochstens|mindestens|maximal|minimal|uber|unter|betragt|betragen|brauchen|braucht|nutzen|nutzt|"
    r"est|sont|es|son|maximo|minimo)\Z|不超过|最多|至少|最大|最小|上限|限制|需要|必须|为|是"
)
"""Words after which a number measures; elsewhere it may be a label: room 204, phase 2."""

FILLERS = frozenset(
    """the an is are be now currently our we its of at characters chars columns der die das ist sind jetzt nun zeichen
    spalten le la les el est es 现在 的""".split()
)
"""Words whose absence changes nothing."""

CONDITION = re.compile(
    r"\b(?:if|when|unless|case|wenn|falls|sobald|bei|si|quand|cuando)\b|如果|若|当(?!前|下)", re.IGNORECASE
)
"""Rules of this kind stand beside each other: one for status 403, one for 404."""
