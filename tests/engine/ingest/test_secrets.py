"""What counts as a secret, what does not, and what is stored in its place."""

from __future__ import annotations

import base64
import json
import re
import time
import uuid
from hashlib import sha1, sha256
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from lossless import Message, Text, ToolCall
from lossless.engine.ingest.secrets import Redactor
from lossless.errors import InvalidInput
from lossless.model import File, Opaque, Part, Reasoning, ToolResult
from tests import strategies
from tests.secrets import (
    ANTHROPIC,
    AWS_ID,
    AWS_SECRET,
    BEARER,
    GITHUB,
    GOOGLE,
    JWT,
    OAUTH,
    OPENAI,
    PASSWORD,
    PAT,
    PRIVATE_KEY,
    SLACK,
    WEBHOOK,
    made,
)

PLACEHOLDER = re.compile(r"\[REDACTED:([a-z-]+):([0-9a-f]{8})\]")
redact = Redactor(["on"], lambda: b"the key of one database")


def redacted(*parts: Part) -> str:
    """All that is kept of a message, as one text."""
    return json.dumps(to_builtins(redact(Message("user", parts))[0]))


FOUND = [
    (f"use {ANTHROPIC} for it", ANTHROPIC, "anthropic-key"),
    (f"OPENAI_API_KEY={OPENAI}", OPENAI, "api-key"),
    (f"export KEY='sk-{made(48)}'", f"sk-{made(48)}", "api-key"),
    (f"sk-or-v1-{made(64, 'router')}", made(64, "router"), "api-key"),
    (f"git clone https://x:{GITHUB}@github.com/a/b", GITHUB, "github-token"),
    (f"token {OAUTH}.", OAUTH, "github-token"),
    (f"gh auth: {PAT}", PAT, "github-token"),
    (f"id {AWS_ID}", AWS_ID, "aws-id"),
    (f"ASIA{AWS_ID[4:]} expires", f"ASIA{AWS_ID[4:]}", "aws-id"),
    (f"{AWS_ID}\n{AWS_SECRET}", AWS_SECRET, "aws-secret"),
    (f"{AWS_ID} and, after some words, {AWS_SECRET} too", AWS_SECRET, "aws-secret"),
    (f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET, "aws-secret"),
    (f'{{"SecretAccessKey": "{AWS_SECRET}"}}', AWS_SECRET, "aws-secret"),
    (f"slack {SLACK}", SLACK, "slack-token"),
    (f"xoxp{SLACK[4:]}", SLACK[5:], "slack-token"),
    (f"curl -X POST {WEBHOOK}", WEBHOOK[-24:], "slack-webhook"),
    (f"?key={GOOGLE}&q=x", GOOGLE, "google-key"),
    (PRIVATE_KEY, PRIVATE_KEY[40:200], "private-key"),
    (f"before\n{PRIVATE_KEY}\nafter", PRIVATE_KEY.splitlines()[2], "private-key"),
    (json.dumps({"key": PRIVATE_KEY}), PRIVATE_KEY.splitlines()[2], "private-key"),
    (PRIVATE_KEY.replace("RSA ", "OPENSSH "), PRIVATE_KEY.splitlines()[1], "private-key"),
    (PRIVATE_KEY[:150], PRIVATE_KEY[40:140], "private-key"),
    (f"Authorization: Bearer {BEARER}", BEARER, "authorization"),
    (f'-H "authorization: bearer {BEARER}"', BEARER, "authorization"),
    (f"{{'Authorization': 'Bearer {BEARER}'}}", BEARER, "authorization"),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "authorization"),
    (f"send Bearer {BEARER} along", BEARER, "authorization"),
    (f"password={PASSWORD}", PASSWORD, "password"),
    ("PASSWORD=hunter", "hunter", "password"),
    (f"db_password = {PASSWORD}", PASSWORD, "password"),
    ("passwd: hunter2", "hunter2", "password"),
    ("Password: s3cret!x", "s3cret", "password"),
    ("pwd=topsecret", "topsecret", "password"),
    ("PGPASSWORD=tiger psql", "tiger", "password"),
    ("?user=a&password=tiger&x=1", "tiger", "password"),
    ('{"password": "open sesame"}', "open sesame", "password"),
    ('{"password":"a b","x":1}', "a b", "password"),
    ('{\\"password\\": \\"tiger lily\\"}', "tiger lily", "password"),
    ("{'passwd': 'tiger'}", "tiger", "password"),
    (json.dumps({"password": 'white "tiger" lily'}), "tiger", "password"),
    (json.dumps(json.dumps({"password": "white tiger", "x": 1})), "white tiger", "password"),
    ('{"password": "cut off in the mid', "off in", "password"),
    ('password = "tiger (white)"', "tiger (white)", "password"),
    (f"cookie {JWT};", JWT, "jwt"),
    (f"Authorization: Bearer {JWT}", JWT, "jwt"),
    (f"密码 password={PASSWORD} 结束", PASSWORD, "password"),
    (f"é{' é' * 40} {GITHUB} é", GITHUB, "github-token"),
]


@pytest.mark.parametrize(("text", "secret", "kind"), FOUND, ids=[f"{n} {each[2]}" for n, each in enumerate(FOUND)])
def test_a_secret_is_replaced_and_what_stands_around_it_stays(text: str, secret: str, kind: str) -> None:
    kept = redact.text(text)
    assert secret not in kept
    found = PLACEHOLDER.search(kept)
    assert found is not None
    assert kind in [each[0] for each in PLACEHOLDER.findall(kept)]
    assert text.startswith(kept[: found.start()])
    assert text.endswith(kept[kept.rindex("]") + 1 :] if kept.count("[REDACTED") == 1 else "")


ORDINARY = [
    "",
    "The deploy key is in the vault, under ops/deploy.",
    "Please reset your password: it expired.",
    "Password: required",
    "password: must be at least 8 characters",
    "The password is case sensitive.",
    "password=",
    "password=None",
    "password = os.environ['PASSWORD']",
    "password = get_password()",
    "password=${DB_PASSWORD}",
    "password=$PASSWORD",
    "password=$(cat secret)",
    "password=<your password>",
    '"password": "********"',
    '"password": null',
    "def login(user: str, password: str) -> None:",
    "password: Optional[str] = None",
    "self.password = password",
    "PWD=/home/ada/project",
    "OLDPWD=/home/me",
    '{"pwd": "/srv/app"}',
    "pwd",
    "sk-learn is scikit-learn",
    "sk-fading-circle-with-a-very-long-class-name",
    "task-1234567890abcdef1234567890",
    "risk-averse-investors-2024-report-final",
    "ghp_short",
    "the ghp_ prefix marks a personal token",
    "AKIA is what the ids begin with",
    "AKIAFOO",
    "eyJhbGciOiJIUzI1NiJ9 is only the header",
    "xoxb- tokens come from Slack",
    "AIza begins a key",
    "bearer of good news, authorization pending",
    "Authorization: required",
    "authorization header missing",
    "The Authorization header is Bearer followed by the token",
    "look for -----BEGIN PRIVATE KEY----- in the file",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "https://hooks.slack.com/ is where webhooks live",
    sha1(b"x").hexdigest(),
    f"commit {sha1(b'y').hexdigest()} (HEAD)",
    sha256(b"x").hexdigest(),
    f"sha256:{sha256(b'y').hexdigest()}",
    str(uuid.UUID(int=2**100 + 7)),
    f"{uuid.UUID(int=5)} and {sha1(b'z').hexdigest()}",
    "toolu_01A09q90qw90lq917835lq9",
    "call_abcDEF1234567890abcDEF12",
    base64.b64encode(b"\x89PNG\r\n" + bytes(range(256)) * 8).decode(),
    f"data:image/png;base64,{base64.b64encode(bytes(range(255, -1, -1)) * 4).decode()}",
    "a" * 4_000,
    made(400, "a run of letters and digits"),
    "/usr/lib/python3.11/site-packages/sklearn/ensemble/_forest.py",
    "SELECT * FROM users WHERE password_hash IS NOT NULL",
    "2026-02-17 15:37 passed 118 tests, 2 failed",
    "пароль забыт; パスワードを忘れた",
    "max_tokens=4096, tokens: 12",
    "secret santa keys and bearer bonds",
    "[REDACTED:password:0a1b2c3d]",
    "password=[REDACTED:password:0a1b2c3d]",
    "class=sk-cube1 sk-cube2 sk-cube3 sk-cube4",
]


@pytest.mark.parametrize("text", ORDINARY, ids=range(len(ORDINARY)))
def test_ordinary_words_stay_as_they_are(text: str) -> None:
    assert redact.text(text) == text
    message = Message.user(text)
    assert redact(message) == (message, 0)


def test_the_same_secret_has_the_same_placeholder_and_another_key_makes_another() -> None:
    one, other = redact.text(f"use {GITHUB}"), redact.text(f"{GITHUB}\nagain")
    assert PLACEHOLDER.findall(one) == PLACEHOLDER.findall(other)
    assert PLACEHOLDER.findall(redact.text(f"use {OAUTH}")) != PLACEHOLDER.findall(one)
    elsewhere = Redactor(["on"], lambda: b"another database")
    assert PLACEHOLDER.findall(elsewhere.text(GITHUB)) != PLACEHOLDER.findall(one)
    # Nobody who lacks the key can try candidates against it.
    assert sha256(GITHUB.encode()).hexdigest()[:8] not in one


def test_no_key_is_asked_for_before_the_first_secret() -> None:
    keys = [b"key"]
    lazy = Redactor(["on"], keys.pop)
    lazy.text("nothing to hide")
    assert keys == [b"key"]
    assert PLACEHOLDER.search(lazy.text(GITHUB))
    assert keys == []
    assert PLACEHOLDER.search(lazy.text(GOOGLE))


def test_every_text_of_a_message_is_looked_at() -> None:
    parts = (
        Text(f"a {GITHUB}", {"anthropic": {"note": OPENAI}}),
        Reasoning(f"b {ANTHROPIC}", "signed"),
        ToolCall("call_1", "login", json.dumps({"user": "a", "password": PASSWORD, "pin": {"passwd": 123456}})),
        ToolResult("call_1", (Text(f"c {GOOGLE}"), File(name=f"{SLACK}.txt"), Opaque("x", [JWT])), name="login"),
        File(
            "text/plain", f"{AWS_ID}.env", base64.b64encode(f"KEY={OPENAI}".encode()).decode(), f"https://h/?k={GOOGLE}"
        ),
        Opaque("patch", {"password": "tiger", "deep": [{"text": WEBHOOK, GITHUB: 1}]}),
    )
    message = Message("assistant", parts, name=f"bot {OAUTH}", extra={"openclaw": {"pwd": "tiger"}})
    kept, count = redact(message)
    told = json.dumps(to_builtins(kept))
    for secret in (
        GITHUB,
        OPENAI,
        ANTHROPIC,
        PASSWORD,
        "123456",
        GOOGLE,
        SLACK,
        JWT,
        AWS_ID,
        "tiger",
        WEBHOOK[-24:],
        OAUTH,
    ):
        assert secret not in told
    assert count == 16
    call, file = kept.parts[2], kept.parts[4]
    assert isinstance(call, ToolCall)
    assert isinstance(file, File)
    assert json.loads(call.arguments)["user"] == "a"
    assert base64.b64decode(file.data or "").startswith(b"KEY=[REDACTED:api-key:")
    assert kept.parts[1] == Reasoning(redact.text(f"b {ANTHROPIC}"), None)  # a signature is for the very words


def test_ids_and_signatures_that_are_no_secrets_stay() -> None:
    parts = (ToolCall("toolu_01A09q90qw90lq917835lq9", "bash", '{"command": "ls"}'), Reasoning("hm", made(300)))
    message = Message("assistant", parts, event_id="msg_01A09q90qw90lq917835lq9")
    assert redact(message) == (message, 0)


def escaped(text: str, times: int = 1) -> str:
    """A text inside JSON, inside JSON ..., every sign that may be an escape written as one."""
    for _ in range(times):
        text = json.dumps(text)[1:-1].replace("/", "\\/").replace("-", "\\u002d")
    return text


@pytest.mark.parametrize("secret", [ANTHROPIC, GITHUB, WEBHOOK, PRIVATE_KEY, JWT])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_secret_behind_escapes_of_json_has_the_same_placeholder(secret: str, times: int) -> None:
    plain = PLACEHOLDER.findall(redact.text(f"the key:\n{secret}\n"))
    assert len(plain) == 1
    found = redact.text(f'{{"said": "{escaped(f"the key:{chr(10)}{secret}{chr(10)}", times)}"}}')
    assert PLACEHOLDER.findall(found) == plain
    json.loads(found)
    assert redact.text(found) == found


def test_only_the_secret_goes_from_between_escapes() -> None:
    arguments = json.dumps({"command": f'curl "https://x"\n\t# {GITHUB}\nls C:\\new\\users', "count": 3})
    found = json.loads(redact.text(arguments))
    assert PLACEHOLDER.sub("*", found["command"]) == 'curl "https://x"\n\t# *\nls C:\\new\\users'
    for harmless in (r"C:\new\table\users", r"a \u00e9 and \n", "\\" * 99, r"\ud800\udc00"):
        assert redact.text(harmless) == harmless


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_secret_in_base64_of_a_text_goes_from_the_text(encode: Any) -> None:
    log = f"a log with ümläuts ?>? and then {GITHUB}\n" + "nothing to see here\n" * 5
    encoded = encode(log.encode()).decode().strip()
    for around in ("{}", "see data:text/plain;base64,{} and more", '{{"body": "{}"}}', "base64\n{}\nend"):
        found = redact.text(around.format(encoded))
        assert encoded not in found
        held = [redact_decode(each) for each in re.findall(r"[\w+/=-]{40,}", found)]
        assert any("[REDACTED:github-token:" in each and "nothing to see here" in each for each in held), found
        assert redact.text(found) == found
    assert redact.text(encode(b"nothing to see here, at all, whoever looks").decode()) == (
        encode(b"nothing to see here, at all, whoever looks").decode()
    )


def redact_decode(text: str) -> str:
    data = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(data + "=" * (-len(data) % 4)).decode("utf-8", "replace")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-8-sig"])
def test_a_file_of_words_in_any_encoding_holds_no_secret(encoding: str) -> None:
    data = f"Größe: {GITHUB} und mehr\n".encode(encoding)
    kept = redact.data(data)
    assert PLACEHOLDER.sub("*", kept.decode(encoding)) == "Größe: * und mehr\n"
    assert redact.data(kept) == kept
    picture = b"\x89PNG\r\n\0" + GITHUB.encode()
    assert redact.data(picture) == picture


def test_addresses_that_hold_a_text_hold_no_secret() -> None:
    encoded = base64.b64encode(f"key {GITHUB}".encode()).decode()
    for url in (f"data:text/plain;base64,{encoded}", f"data:text/plain,key%20{GITHUB.replace('_', '%5F')}"):
        (part,) = redact(Message("user", (File("text/plain", None, None, url),)))[0].parts
        assert isinstance(part, File)
        assert part.url is not None
        assert part.url != url
        assert GITHUB not in unquote(part.url)
        assert encoded not in part.url


def test_ids_without_their_secrets_stay_unique_and_pairs_stay_pairs() -> None:
    def sent(secret: str) -> tuple[Message, Message]:
        call = Message("assistant", (ToolCall(f"call-{secret}", "ls", "{}"),), event_id=f"{secret}-1")
        result = Message("tool", (ToolResult(f"call-{secret}", (Text("x"),)),), event_id=f"{secret}-2")
        return redact(call)[0], redact(result)[0]

    ids, calls = set(), set()
    for secret in (GITHUB, OAUTH):
        call, result = sent(secret)
        assert isinstance(call.parts[0], ToolCall)
        assert isinstance(result.parts[0], ToolResult)
        assert call.parts[0].call_id == result.parts[0].call_id
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call.parts[0].call_id)
        calls.add(call.parts[0].call_id)
        ids |= {call.event_id, result.event_id}
        assert secret not in json.dumps(to_builtins([call, result]))
        assert redact(call) == (call, 0)
        assert sent(secret) == (call, result)
    assert (len(ids), len(calls)) == (4, 2)


def test_every_field_of_a_message_is_looked_at() -> None:
    deep: Any = {"key": GITHUB}
    for _ in range(80):
        deep = [deep]
    message = Message(
        f"role {GITHUB}",
        (Opaque(f"kind {GITHUB}", {GITHUB: [deep], "password": 4711_2222}), File(f"text/{GITHUB}", None, "aGk=")),
        stop=f"error: {GITHUB} is not valid",
        name=GITHUB,
        event_id=GITHUB,
    )
    kept, count = redact(message)
    assert count >= 7
    assert GITHUB not in json.dumps(to_builtins(kept))
    assert "47112222" not in json.dumps(to_builtins(kept))


def test_a_secret_over_two_parts_goes_from_both() -> None:
    kept, count = redact(Message("user", (Text(f"key: {GITHUB[:12]}"), Text(f"{GITHUB[12:]} and so on"), Text("x"))))
    assert count == 1
    first, second, third = (part.text for part in kept.parts if isinstance(part, Text))
    assert PLACEHOLDER.findall(first) == PLACEHOLDER.findall(second) == PLACEHOLDER.findall(redact.text(GITHUB))
    assert (first[:5], second[-10:], third) == ("key: ", " and so on", "x")
    assert redact(kept) == (kept, 0)
    long = f"{ANTHROPIC[:60]}", f"{ANTHROPIC[60:]}!"
    assert ANTHROPIC[60:] not in redacted(*map(Text, long))
    assert ANTHROPIC[60:] not in redacted(ToolResult("c", tuple(map(Text, long))))


@given(strategies.messages)
def test_what_was_redacted_stays_as_it_is(message: Message) -> None:
    once, _ = redact(message)
    assert redact(once) == (once, 0)


@given(
    st.lists(st.sampled_from([each[0] for each in FOUND] + ORDINARY), max_size=4), st.sampled_from(["", " ", "\n", '"'])
)
def test_what_was_redacted_stays_as_it_is_however_secrets_meet(texts: list[str], between: str) -> None:
    once = redact.text(between.join(texts))
    assert redact.text(once) == once
    parts = Message("user", tuple(map(Text, texts)))
    twice, _ = redact(parts)
    assert redact(twice)[0] == twice


def test_patterns_of_ones_own_count_besides_the_built_in_kinds() -> None:
    own = Redactor([r"\bcorp_[a-z0-9]{8}\b", r"кот\d+"], lambda: b"key")
    kept = own.text(f"corp_12345678, corp_abcdefgh! кот7 {GITHUB} xcorp_12345678")
    assert [kind for kind, _ in PLACEHOLDER.findall(kept)] == ["custom", "custom", "custom", "github-token"]
    assert kept.endswith(" xcorp_12345678")
    with pytest.raises(InvalidInput, match="look-around"):
        Redactor(["(?<=a)b"], lambda: b"")


@pytest.mark.parametrize(
    "evil",
    [
        "-----BEGIN PRIVATE KEY-----" * 4_000,
        "password=" * 12_000,
        "sk-" * 40_000,
        'password="' + "\\" * 100_000,
        f"{AWS_ID} " * 5_000,
        "eyJaaaaaaaa." * 9_000,
        "Authorization: Bearer " * 5_000,
        f"password={PASSWORD} " * 5_000,
    ],
    ids=range(8),
)
def test_no_text_takes_longer_than_its_length_allows(evil: str) -> None:
    started = time.perf_counter()
    redact.text(evil)
    assert time.perf_counter() - started < 5
