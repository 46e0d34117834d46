"""Cue words of a sentence: of a rule, a decision, a change, something still open.

In eight languages: English, German, Spanish, French, Portuguese, Russian, Chinese and Japanese. A sentence without any
of them still counts by its facts.
"""

from __future__ import annotations

import re

_WORDS = {
    "rule": """must mustn't never always don't dont only required require requires forbidden allowed prefer prefers preferred
        preference remember careful avoid ensure limit limits maximum minimum cap deadline strictly mandatory prohibited
        unless except policy convention budget allergic allergy intolerant insist without hate hates favourite favorite shouldn't
        muss müssen musst nie niemals immer nur darf dürfen darfst bitte verboten unbedingt keinesfalls höchstens mindestens solange
        stets ausschließlich künftig pflicht
        nunca siempre debe deben debes jamás solo sólo prohibido obligatorio quiero salvo excepto máximo prefiero
        jamais toujours doit doivent dois interdit obligatoire uniquement seulement veuillez veux voudrais sauf
        sempre deve devem proibido obrigatório somente apenas quero exceto prefiro
        никогда всегда нельзя нужно должен должна должны обязательно только запрещено пожалуйста хочу кроме впредь""",
    "decision": """decide decided decides decision agreed agree choose chose chosen pick picked settled settle approved approve
        confirmed confirm instead switch switched adopt adopted reject rejected let's lets we'll final replace replaced
        planned postpone postponed cancel cancelled canceled deal
        entschieden beschlossen nehmen bleibt stattdessen lieber gewählt genehmigt abgelehnt abgesagt einigen geeinigt
        decidido decidimos elegido elegimos quedamos aprobado rechazado acordado cancelado mejor
        décidé décidons choisi choisissons plutôt retenu approuvé refusé convenu annulé prenons
        decidimos escolhido escolhemos ficamos aprovado recusado combinado
        решили решено выбрали берём вместо утвердили договорились отказались отменили""",
    "reason": """because reason therefore caused cause causes culprit explains root
        weil deshalb denn grund parce raison porque motivo потому причина""",
    "change": """actually correction corrected changed change wrong mistake misremembered update updated previously renamed
        became moved nope scratch now formerly
        eigentlich doch falsch geändert korrektur jetzt verschoben neuer neues
        realidad corrección cambió cambiado equivoqué ahora antes actualizado
        finalement correction changé trompé désormais maintenant déplacé
        verdade correção mudou enganei agora alterado
        исправление изменили изменилось ошибся ошиблась теперь перенесли поправка""",
    "result": """error errors failed fails failing failure fixed fix works worked passes passed passing done merged deployed
        released shipped finished completed booked paid ordered signed sent received delivered arrived measured result results
        found broke broken crashed timeout leaked bug regression slower faster reduced increased dropped returned solved helped
        fehler fertig erledigt behoben gebucht bezahlt gelöst geholfen abgebrochen
        erreur échoué terminé corrigé résolu payé réservé fallo falló hecho resuelto arreglado pagado reservado
        erro falhou feito resolvido corrigido pago reservado ошибка готово исправлено решено помогло сломалось оплачено""",
    "pending": """pending unresolved undecided unsettled waiting outstanding tbd follow-up followup unanswered unclear
        offen unklar ungeklärt warte warten ausstehend pendiente pendientes espero esperando
        attends attendons pendente aguardo aguardando жду ждём ждем неясно неизвестно непонятно""",
    "fact": """called named lives born birthday address phone number code password costs cost price pays owner contact account
        version port serial total per each roughly minutes hours days weeks percent
        heißt wohnt kostet gehört zuständig appelle habite coûte s'occupe llama vive cuesta encarga chama mora custa cuida
        зовут живёт стоит отвечает""",
    "idle": """thanks thank great sure okay ok hello hi hey welcome perfect nice awesome cool sounds glad happy absolutely
        certainly lol haha yep cheers congrats enjoy danke hallo prima merci bonjour gracias hola vale obrigado obrigada olá
        спасибо привет""",
}
_PAIRS = {
    "rule": """make sure, do not, no more, at most, under no, by default, no longer, has to, have to, needs to, from now,
        not allowed, can't have, won't have, i want, ask me, not to, ab jetzt, auf keinen, ohne mich, ich will, ich möchte,
        nicht mehr, por favor, no quiero, a partir, hay que, tiene que, s'il vous, s'il te, je veux, à partir, il faut, au plus,
        não quero, tem que, não pode, no puede, не более, не надо, с этого, без моего""",
    "decision": """go with, went with, we will, i'll take, we take, going with, let us, settled on, opt for, opted for, sticking with,
        stick with, ruled out, going for, is out, am ende, ist raus, nos quedamos, on prend, fica com, ficamos com""",
    "change": """instead of, no longer, turns out, en realidad, en fait, na verdade, на самом""",
    "pending": """waiting for, waiting on, remind me, follow up, open question, come back, still have, still need, heard nothing,
        haven't heard, no answer, no reply, never settled, not settled, not decided, haven't decided, needs deciding, still open, not clear,
        don't know, noch unklar, erinnere mich, nichts gehört, nie geklärt, nicht geklärt, keine antwort, noch offen,
        sin resolver, sin respuesta, no sé, no sabemos, tengo claro, por aclarar,
        pas clair, sans réponse, en attente, ne sait, sem resposta, não sei, não sabemos, não ficou,
        до сих, не решили, не ясно, нет ответа, так и""",
    "reason": "turned out, so that, that's why, due to, caused by, the reason",
    "idle": """let me, i'll now, now let, would you, anything else, let's see, of course, no problem, happy to, feel free,
        shall i, want me, now update, now i, i'll read, i'll check, looking at""",
}
_WIDE = {
    "rule": """必须 不要 禁止 务必 不能 不准 不许 一律 永远 绝不 从不 总是 只能 除非 先问 不得 最多 要先 先看 以内
        必ず 絶対 禁止 いつも 常に ないでください 決して 以外 てはいけ いけな ないよう 必須 事前 今後 ない限り 以内 す前に る前に""",
    "decision": "决定 改用 同意 选定 采用 就用 定了 确定 不用 取消 批准 決定 決めた 決まり 採用 代わり にする にします 選んだ 承認",
    "reason": "因为 原因 所以 理由 ため",
    "change": "其实 改成 改为 更正 变成 现在是 说错 变了 変更 訂正 実は 変わ 間違え 今は",
    "result": "错误 失败 完成 修复 解决 报错 好了 エラー 失敗 修正 解決 完了 直った 直り",
    "pending": "待办 在等 等待 尚未 待定 不清楚 没定 未定 没有答复 没弄清 一直没 未決 待って 未定 不明 保留 返事が 分からない わからない はっきりしない 決まっていない",
    "fact": "名字 价格 住在 负责 名前 価格 担当",
    "idle": "谢谢 感谢 你好 好的 ありがとう こんにちは 了解",
}
_COMMON = """a about above after again ago ah all almost already also although am an and another any anyone anything anyway are aren't
    around as at away back be because been before being below between big bit both but by can can't cannot come comes could
    couldn't day did didn't do does doesn't doing done down each either else even ever every everyone everything far few first for
    from get gets getting give gives go goes going gone good got had hardly has have haven't having he he'd he's her here hers him his how i
    i'd i'll i'm i've if in into is isn't it it's its itself just keep know last least less let like little long look looks
    lot lots made make makes many may maybe me mean might mine more most much my myself near neither next no nobody none nor not
    nothing now of off often oh on once one only onto or other others our out over own part people perhaps please put quite
    rather really right said same say says see seem seems seen shall she should since small so some someone something
    somewhere soon still such take takes than that that's the their them themselves then there there's these they thing things think this
    those though through time to today together too took two under until up upon us use used very want was wasn't way we we'll we're
    we've well went were what whatever when where whether which while who whole whom whose why will with within without won't
    would wouldn't yeah year yes yesterday yet you you'd you'll you're you've your yours yourself

    ab aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist da dabei dafür damit danach
    dann daran darauf darf das dass davon dazu dein deine dem den denn der des deshalb die dies diese diesem diesen dieser dieses
    doch dort du durch ein eine einem einen einer eines einfach er erst es etwas euch euer für ganz gar geht gern gibt gut habe haben
    hast hat hatte hier hin ich ihm ihn ihnen ihr ihre im immer in ins ist ja jede jeden jeder jemand jetzt kann kein keine keinen
    keiner man mehr mein meine meinem meinen meiner mich mir mit mal muss nach nein nicht nichts noch nun nur ob oder ohne schon
    sehr sein seine seit selbst sich sie sind so soll sondern sonst statt über um und uns unser unter viel vom von vor war warum was
    weil weiter wenn wer werden wie wieder will wir wird wo wohl würde zu zum zur zwar zwei

    al algo algunos allí antes así aunque bien cada casi como con cual cuando cuanto de del desde donde dos el ella ellos en
    entre era es esa ese eso esta estaba está están este esto estos fue ha hace hacia hasta hay he la las le les lo los luego más me mi
    mientras mis mucho muy nada ni no nos nosotros o otra otro para pero poco por porque pues que qué quien se sea según ser si sí sin
    sobre son su sus tal también tan tanto te tener tengo tiene todo todos tu tus un una unas uno unos y ya yo

    ai alors après au aucun aussi autre aux avait avant avec avoir bien c'est car ce cela ces cet cette chaque chez comme
    d'un d'une dans de deux des donc dont du elle elles encore entre es est et étais était être eu fait faire il ils j'ai je
    l'on la là le les leur leurs lui ma mais me même mes moi moins mon n'est ne nos notre nous on ont ou où par pas peu peut
    plus pour puis qu'il quand que quel quelle qui quoi sa sans se ses si son sont sous sur ta te tes toi ton tous tout toute très
    trop tu un une vers vos votre vous y

    ao aos aquela aquele até cada com como da das de dela dele depois do dos e ela elas ele eles em entre era essa esse esta está
    estava este eu foi fui há isso isto já lá lhe mais mas me mesmo meu minha muito na nas nem no nos nós nossa nosso num numa o os
    ou outra outro para pela pelo por porque pra quando que quem são se sem ser seu sua só sobre também te tem tenho ter teu toda todo
    tudo um uma vai você vocês

    а без бы был была были было быть в вам вас ведь весь во вот все всё всего вы где да даже для до его ее её если есть еще ещё же за
    здесь и из или им их к как какой когда кто ли лишь меня мне может мои мой моя мы на над нам нас наш не него нее ни них но ну о об
    один он она они оно от очень по под после потом потому при про раз с сам свой себя со так также такой там тебя тем то тоже того
    только том тот ту ты у уже хоть чего чем через что чтобы чуть эта эти это этого этой этот я"""
_TIME_WORDS = """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february march april june july august september october november december tonight noon midnight weekend tomorrow
    montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz juni juli oktober dezember
    lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril juin juillet août septembre octobre novembre décembre
    lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio julio agosto septiembre octubre
    noviembre diciembre segunda-feira terça-feira quarta-feira quinta-feira sexta-feira janeiro fevereiro março maio junho julho
    setembro outubro novembro dezembro понедельник вторник среда среду четверг пятница пятницу суббота субботу воскресенье января
    февраля марта апреля мая июня июля августа сентября октября ноября декабря"""

BY_WORD = {word: cue for cue, words in _WORDS.items() for word in words.split()}
BY_PAIR = {" ".join(pair.split()): cue for cue, pairs in _PAIRS.items() for pair in pairs.split(",")}
COMMON = frozenset(_COMMON.split())
TIME_WORDS = frozenset(_TIME_WORDS.split())
_WIDE_CUES = tuple((cue, re.compile("|".join(map(re.escape, words.split())))) for cue, words in _WIDE.items())


def wide_cues(text: str) -> set[str]:
    """Return the cues in a text whose script has no spaces between words."""
    return {cue for cue, pattern in _WIDE_CUES if pattern.search(text)}
