"""Stop words: articles, pronouns, auxiliaries, interrogatives."""

from __future__ import annotations

_WORDS = """
a an the this that these those some any each every either neither such other another both all
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves one ones
am is are was were be been being do does did doing done have has had having will would shall should can could may
might must ought let lets
isn aren wasn weren don doesn didn haven hasn hadn won wouldn shan shouldn couldn mustn ain cannot
s t d m ll re ve
and or but nor if then else than because so as while although though whether unless until
of at by for with about against between among into through during before after above below to from up down in out on
off over under upon onto within without toward towards across along around per via
not no yes too very just also only even still already ever again quite rather really almost
there here now
what which who whom whose when where why how much many
please tell
"""
_PRONOUNS = (start + end for start in ("some", "any", "every") for end in ("one", "body", "thing"))
STOP_WORDS = frozenset([*_WORDS.split(), *_PRONOUNS])
