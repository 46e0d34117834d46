"""Secrets that are none: made up when a test runs, so that no scanner of ours or anybody's takes this file for a leak."""

from __future__ import annotations

from hashlib import sha512

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def made(length: int, seed: str = "", letters: str = _LETTERS) -> str:
    """So many letters and digits mixed, always the same for a seed."""
    found = sha512(seed.encode()).digest() * (1 + length // 64)
    return f"{letters[-1]}{''.join(letters[each % len(letters)] for each in found)}"[:length]


def private_key(lines: int = 4, seed: str = "pem") -> str:
    body = "\n".join(made(64, f"{seed}{n}") for n in range(lines))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


def jwt(seed: str = "jwt") -> str:
    return f"eyJ{made(30, seed)}.eyJ{made(40, seed + '2')}.{made(43, seed + '3')}"


ANTHROPIC = f"sk-ant-api03-{made(90, 'anthropic')}"
OPENAI = f"sk-proj-{made(48, 'openai')}"
GITHUB = f"ghp_{made(36, 'github')}"
OAUTH = f"gho_{made(36, 'oauth')}"
PAT = f"github_pat_{made(22, 'pat')}_{made(59, 'pat2')}"
AWS_ID = f"AKIA{made(16, 'aws', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')}"
AWS_SECRET = made(40, "aws secret")
SLACK = f"xoxb-{made(12, 'slack', '0123456789')}-{made(24, 'slack2')}"
WEBHOOK = f"https://hooks.slack.com/services/T{made(8, 'team')}/B{made(8, 'hook')}/{made(24, 'hook2')}"
GOOGLE = f"AIza{made(35, 'google')}"
BEARER = made(40, "bearer")
PASSWORD = f"correct-horse-{7}"
JWT = jwt()
PRIVATE_KEY = private_key()
