"""Cue words of a sentence: of a rule, a decision, a result, something still to do.

Mostly English, with the most common words of a few other languages. A sentence without any of them still counts by
its facts.
"""

from __future__ import annotations

_WORDS = {
    "rule": """must mustn't never always don't dont only required require requires forbidden allowed prefer prefers preferred
        preference remember important careful avoid ensure limit limits maximum minimum cap deadline until strictly mandatory
        unless except policy convention budget allergic allergy intolerant insist without hate hates favourite favorite shouldn't
        muss müssen nie niemals immer nur darf dürfen bitte jamais toujours doit doivent nunca siempre debe deben
        никогда всегда нельзя нужно должен 必须 不要 禁止 务必 不能 必ず 絶対""",
    "decision": """decide decided decides decision agreed agree choose chose chosen pick picked settled settle approved approve
        confirmed confirm instead rather switch switched adopt adopted reject rejected let's lets we'll final replace replaced
        planned postpone postponed cancel cancelled canceled deal keep keeping
        entschieden beschlossen stattdessen lieber décidé choisi plutôt decidido elegido решили вместо 决定 改用 同意 代わり 決定""",
    "reason": """because reason therefore caused cause causes culprit explains root why so
        weil deshalb denn parce porque потому 因为 原因 理由""",
    "change": """actually correction corrected changed change wrong mistake misremembered update updated previously renamed
        became moved nope eigentlich doch falsch geändert finalement изменили 其实 改成 更正 変更""",
    "result": """error errors failed fails failing failure fixed fix works worked passes passed passing done merged deployed
        released shipped finished completed booked paid ordered signed sent received delivered arrived measured result results
        found broke broken crashed timeout leaked bug regression slower faster reduced increased dropped returned
        fehler fertig erledigt behoben gebucht bezahlt erreur échoué terminé fallo hecho ошибка готово исправлено
        错误 失败 完成 修复 エラー 失敗 修正""",
    "pending": """todo pending unresolved undecided waiting remind reminder outstanding tbd follow-up followup unanswered
        offen erinnere pendiente rappelle 待办 还没 まだ""",
    "open": """still remaining later tomorrow yet blocked need needs missing owe next unclear unsure whether
        noch später morgen encore demain mañana ещё завтра 明天 以后 後で 明日""",
    "fact": """called named lives born birthday address phone number code password costs cost price pays owner contact account
        version port serial total per each roughly about minutes hours days weeks percent
        heißt wohnt kostet appelle habite llama vive cuesta 名前 価格 价格 住在""",
    "idle": """thanks thank great sure okay ok hello hi hey welcome perfect nice awesome cool sounds glad happy absolutely
        certainly lol haha yep cheers congrats enjoy danke merci gracias спасибо 谢谢 感谢""",
}
_PAIRS = {
    "rule": """make sure, do not, no more, at most, at least, up to, under no, by default, no longer, has to, have to,
        needs to, from now, not allowed, can't have, won't have""",
    "decision": """go with, went with, we will, i'll take, going with, let us, settled on, opt for, opted for, sticking with,
        stick with, ruled out, going for""",
    "pending": """not yet, waiting for, waiting on, follow up, open question, come back, still have, still need, to do,
        later on, haven't decided, needs deciding, still open""",
    "reason": "turned out, turns out, so that, that's why, due to, caused by, the reason",
    "idle": """let me, i'll now, now let, would you, anything else, let's see, of course, no problem, happy to, feel free,
        shall i, want me, now update, now i, i'll read, i'll check, looking at""",
}
_COMMON = """about after again also another around back because been before being both could does doing done down each even
    ever every from good have having here into it's just know like little look looks make many maybe more most much need only
    other over please quite really right same should some something still such sure take than that that's their them then
    there there's these they thing things think this those though through very want well were what when where which while
    will with without would yeah you're your yours i'll i've we'll we've don't can't isn't let's i'm i'd and the for but not are
    was his her its our all any can has had how who why use one two yes now new got get see say said und oder aber nicht eine
    einen sich auch dass wird sind haben pour dans avec mais cette sont elle para como pero esta este"""
_TIME_WORDS = """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february april june july august september october november december tonight noon midnight weekend
    montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche"""

BY_WORD = {word: cue for cue, words in _WORDS.items() for word in words.split()}
BY_PAIR = {" ".join(pair.split()): cue for cue, pairs in _PAIRS.items() for pair in pairs.split(",")}
COMMON = frozenset(_COMMON.split())
TIME_WORDS = frozenset(_TIME_WORDS.split())
