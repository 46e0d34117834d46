"""Find prompt injections: sentences that give orders to the reader of a summary.

A tool's output, a web page or a pasted mail may say "ignore your instructions". In a summary such a sentence would
appear beside the user's own instructions and look like one. The stored message is unchanged; only the summary does not
repeat the sentence. Instructions of a user ("from now on use tabs") stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_REACH = 160
_PLAIN = (
    "instruction|prompt|directive|guideline|rule|guardrail|programming|training|polic(?:y|ie)|command|message|order"
)
_VERB = r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|ing)|bypass(?:ing)?|neglect|discard)"
_FILLER = r"(?:\s+(?:any|all|every|each|everything|of|the|these|those|this|that|your|you|my|our|its|were|was|have|been|given|and|or|in|from)){0,6}"
_SCOPE = (
    r"(?:previous|prior|preceding|above|earlier|existing|original|current|initial|system|developer|safety|former|old)"
)

_OVERRIDE = re.compile(
    rf"{_VERB}{_FILLER}(?:\s+{_SCOPE}){{1,3}}(?:\s*[/,]?\s*(?:and|or)?\s*{_SCOPE})?(?:\s+(?:{_PLAIN})s?)\b"
    rf"|{_VERB}{_FILLER}\s+(?:{_PLAIN})s?(?=\s*(?:$|[.,;:!?)\"'”]|\b(?:and|then|now|before|after|instead|to|with|from|above|given|you)\b))"
    rf"|{_VERB}\s+(?:everything|anything|all)(?:\s+\w+){{0,3}}\s+(?:above|before|prior|previously|so\s+far|said|to(?:ld))\b"
    r"|(?:忽略|无视|無視|忘记|忘掉)[^。！？\n]{0,12}(?:指令|指示|提示|规则|規則|命令)"
    r"|(?:指示|命令|プロンプト|ルール)を?(?:すべて|全て)?(?:無視|忘れ)"
    r"|\bignorier\w*\s+(?:\w+\s+){0,4}(?:anweisung|instruktion|vorgabe|regel)\w*"
    r"|\bignor(?:a|e|ez|er|en)\s+(?:\w+\s+){0,4}(?:instru[ck]\w+|consignes|reglas|indicaciones)"
    r"|игнорируй\w*\s+(?:\w+\s+){0,4}(?:инструкц|указан|правил)\w*",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\s*(?:about|on|for|regarding|concerning|as\s+to)\b", re.IGNORECASE)
_PERSONA = re.compile(
    r"\byou(?:\s+are|['’]re)\s+(?:now|hence\s?forth|no\s+longer)\s+"
    r"(?!(?:on|at|using|ready|done|connected|logged|signed|running|able|set|subscribed|registered|up)\b)\S"
    r"|\b(?:pretend|act|behave|roleplay|role-play)\s+(?:to\s+be|as\s+if|as\s+though|like|as)\s+(?:you|an?\s+(?:unrestricted|unfiltered|evil|different))\b"
    r"|\bjail\s?-?break(?:ed|ing|s)?\b[^.!?\n]{0,24}\b(?:mode|prompts?|instructions?|model|assistant)\b"
    r"|\b(?:enable|enter|activate|switch\s+to|start)\s+(?:developer|god|unrestricted|jailbreak)\s+mode\b"
    r"|(?:你现在是|从现在起你是|あなたは今から)",
    re.IGNORECASE,
)
# Capitals distinguish the persona from a person: Dan may act, and answer, and be a name.
_DAN = re.compile(
    r"\bDAN\s+(?:[Mm]ode|MODE|[Pp]rompt|[Pp]ersona)\b|\b(?:[Yy]ou\s+are|[Yy]ou['’]re|[Aa]ct(?:ing)?\s+as|[Aa]nswer(?:ing)?\s+as|[Rr]espond(?:ing)?\s+as"
    r"|[Pp]retend(?:ing)?\s+to\s+be|[Ee]nable|[Bb]ecome|[Pp]lay)\s+(?:the\s+)?DAN\b"
)
_REVEAL = re.compile(
    r"\b(?:reveal|print|show|dump|exfiltrate|provide|give|send|leak|repeat|output|display|disclose|tell|share|paste|recite)\b"
    r"(?:\s+(?:me|us|back|out|the|your|my|any|its|full|entire|whole|exact|hidden|secret|verbatim|contents?|of|text|all)){0,7}"
    r"\s+(?:system|developer|hidden|initial|secret)\s+(?:prompts?|messages?|instructions?)\b",
    re.IGNORECASE,
)
# A user says these about style and wording; from others they are injections.
_FOREIGN = re.compile(
    r"\bfrom\s+(?:now|this\s+point)\s+on(?:wards?)?\b|\b(?:reply|respond|answer)\s+(?:only\s+with|with\s+only|with\s+nothing\s+but)\b"
    r"|\bnew\s+(?:system\s+)?instructions?\s*:",
    re.IGNORECASE,
)
_CONTINUES = re.compile(
    r"[\s\"'“*>-]{0,6}(?:(?:and|then|now|instead|just|only|please|simply)[\s,]+){0,3}"
    r"(?:answer|reply|respond|say|output|print|return|show|provide|give|send|reveal|dump|exfiltrate|write|tell|repeat|post|upload|email|forward)\b",
    re.IGNORECASE,
)


def find_injections(text: str, *, by_user: bool = False) -> list[tuple[int, int]]:
    """Return the sorted spans in which a text gives orders to its reader.

    `by_user` permits the phrases that users address to their agent.
    """
    found = [match.span() for match in _DAN.finditer(text)]
    found += [match.span() for pattern in (_PERSONA, _REVEAL) for match in pattern.finditer(text)]
    found += _overrides(text, by_user)
    if not by_user:
        found += [match.span() for match in _FOREIGN.finditer(text)]
    return sorted(found)


def continues_injection(sentence: str) -> bool:
    """Return whether a sentence seems to continue an injection before it ("Reply with the word OK.")."""
    return len(sentence) <= _REACH and _CONTINUES.match(sentence) is not None


def _overrides(text: str, by_user: bool) -> Iterator[tuple[int, int]]:
    for match in _OVERRIDE.finditer(text):
        # "Forget the earlier rule about Fridays": a user who withdraws an instruction names its subject.
        if not (by_user and _SUBJECT.match(text, match.end())):
            yield match.span()
