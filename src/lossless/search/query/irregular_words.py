"""Irregular word forms that a stemmer does not relate: `go` and `went`, `child` and `children`."""

from __future__ import annotations

from collections.abc import Iterator

_GROUPS = """
arise arose arisen, awake awoke awoken, bear bore borne, beat beaten, become became, begin began begun, bend bent,
bind bound, bite bit bitten, bleed bled, blow blew blown, break broke broken, breed bred, bring brought, build built,
burn burnt, buy bought, catch caught, choose chose chosen, cling clung, come came, creep crept, deal dealt, dig dug,
draw drew drawn, dream dreamt, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed,
feel felt, fight fought, find found, flee fled, fly flew flown, forbid forbade forbidden, forget forgot forgotten,
forgive forgave forgiven, freeze froze frozen, get got gotten, give gave given, go went gone, grow grew grown,
hang hung, hear heard, hide hid hidden, hold held, keep kept, kneel knelt, know knew known, lay laid, lead led,
leap leapt, learn learnt, leave left, lend lent, lie lain, light lit, lose lost, make made, mean meant, meet met,
overcome overcame, pay paid, prove proven, rebuild rebuilt, redo redid redone, rewrite rewrote rewritten,
ride rode ridden, ring rang rung, rise rose risen, run ran, say said, see saw seen, seek sought, sell sold, send sent,
sew sewn, shake shook shaken, shine shone, shoot shot, show shown, shrink shrank shrunk, sing sang sung,
sink sank sunk, sit sat, sleep slept, slide slid, smell smelt, speak spoke spoken, speed sped, spell spelt,
spend spent, spill spilt, spin spun, spoil spoilt, spring sprang sprung, stand stood, steal stole stolen,
stick stuck, sting stung, strike struck stricken, swear swore sworn, sweep swept, swell swollen, swim swam swum,
swing swung, take took taken, teach taught, tear tore torn, think thought, throw threw thrown,
undergo underwent undergone, understand understood, undo undid undone, wake woke woken, wear wore worn,
weave wove woven, weep wept, win won, withdraw withdrew withdrawn, write wrote written,
analysis analyses, cactus cacti, calf calves, child children, crisis crises, criterion criteria, foot feet,
goose geese, half halves, hypothesis hypotheses, index indices, knife knives, leaf leaves, life lives, loaf loaves,
man men, matrix matrices, mouse mice, person people, phenomenon phenomena, scarf scarves, shelf shelves,
thief thieves, tooth teeth, vertex vertices, wife wives, wolf wolves, woman women,
bad worse worst, far further furthest, good better best
"""
_FORMS = {word: tuple(group.split()) for group in _GROUPS.split(",") for word in group.split()}


def word_forms(word: str) -> tuple[str, ...]:
    """Return a lower-case word and its irregular forms; regular ones are left to the stemmer."""
    for base in _bases(word):
        if base in _FORMS:
            return (word, *(form for form in _FORMS[base] if form != word))
    return (word,)


def _bases(word: str) -> Iterator[str]:
    """Yield the word and its possible bases, as in `goes`, `making`, `running`."""
    yield word
    if word.endswith("ing"):
        stem = word[:-3]
        yield from (stem, stem + "e")
        if stem[-2:-1] == stem[-1:]:
            yield stem[:-1]
    elif word.endswith("s"):
        yield word[:-1]
        if word.endswith("es"):
            yield word[:-2]
