"""Which prompts ask about the past."""

from __future__ import annotations

import pytest

from lossless.hosts.hook.cue import CUE, asks_about_past

PAST = (
    "Do you remember the deploy key?",
    "do you still remember what the port was",
    "Can you recall why we chose SQLite?",
    "What did we decide about the ferry?",
    "which port did you use for the staging server",
    "where did we leave off?",
    "Continue where we left off.",
    "We discussed a schema for this, use it.",
    "Use the name we agreed on yesterday.",
    "As I said in the last session, no globals.",
    "Remind me what the password policy was.",
    "Why were the tests disabled last week?",
    "What was my budget again?",
    "Erinnerst du dich an den Hafen?",
    "Was haben wir über die Fähre beschlossen?",
    "Wie hieß gestern der Branch?",
    "Tu te souviens du port ?",
    "Qu’avons-nous décidé pour la base ?",
    "Qu'est-ce qu'on avait dit la dernière fois ?",
    "¿Recuerdas la contraseña?",
    "¿Qué decidimos sobre el puerto?",
    "Você lembra do nome?",
    "Cosa avevamo deciso?",
    "Помнишь, как назывался файл?",
    "О чём мы говорили вчера?",
    "你还记得那个端口吗？",
    "上次我们用的是哪个数据库？",
    "前回の設定を教えて",
    "覚えていますか",
    "지난번에 정한 이름이 뭐였지?",
)
PRESENT = (
    "",
    "Write a test for the ferry.",
    "Fix the failing build.",
    "Rename `remember_me` to `stay_signed_in`.",
    "Explain this:\n```\ndo you remember? yesterday\n```\nin one sentence.",
    "> What did we decide?\n\nTranslate the quotation.",
    "/compact what we discussed yesterday",
    "How do I sort a list?",
    "Add a cache that keeps the last value.",
    "What does this function return?",
    "Schreibe einen Test für die Fähre.",
    "Écris un test.",
    "Escribe una prueba.",
    "Напиши тест.",
    "写一个测试",
    "テストを書いて",
    "테스트를 작성해",
)


@pytest.mark.parametrize("prompt", PAST)
def test_a_question_about_the_past_is_recognised(prompt: str) -> None:
    assert asks_about_past(prompt)


@pytest.mark.parametrize("prompt", PRESENT)
def test_other_prompts_get_no_cue(prompt: str) -> None:
    assert not asks_about_past(prompt)


def test_a_long_prompt_is_read_at_its_ends_and_fast() -> None:
    assert asks_about_past("x " * 1_000_000 + "What did we decide?")
    assert not asks_about_past("`" * 2_000_000)
    assert not asks_about_past("what " * 500_000)


def test_the_cue_is_short() -> None:
    assert len(CUE) < 500
