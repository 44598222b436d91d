"""Credentials are found in a text, and nothing that only looks a little like them."""

from __future__ import annotations

import json
import random
import re
import string
from importlib.resources import files
from time import process_time

import pytest

from kaosmem import ChatMessage
from kaosmem.compaction import Summarizer
from kaosmem.compaction.facts import facts_in
from kaosmem.language.credentials import LEFT_OUT, without_credentials
from kaosmem.testing import ScriptedLLM

_RANDOM = random.Random(0)
_NOISE = "Then nothing much happened for a while. " * 60


def _token(chars: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_RANDOM.choices(alphabet, k=chars))


# Each text with a credential, and the credential. They are made here, so that no scanner finds one
# in this file.
SECRETS = [
    (text.format(secret), secret)
    for text, secret in [
        ("Sign in with {} please.", "AKIA" + _token(16, string.ascii_uppercase + "234567")),
        ("The GitHub token is {}", "ghp_" + _token(36)),
        ("OPENAI_API_KEY={}", "sk-proj-" + _token(74) + "T3BlbkFJ" + _token(74)),
        ("Slack: {}.", f"xoxb-123456789012-1234567890123-{_token(24)}"),
        ("Use postgres://app:{}@db.example.com:5432/shop", "S3cr3tPw"),
        ("redis://:{}@cache:6379/0", "p4ssw0rd"),
        ("The password is {}!", "hunter2"),
        ("Das Passwort lautet {}.", "Blume77x"),
        ("密码是{}", "abc12345"),
        ("Run curl -u admin:{} https://example.com", "S3cret99"),
        ("Authorization: Bearer {}", _token(40)),
        ('{{"password": "{}"}}', "Tr0ub4dor&3"),
        ("AWS_SECRET_ACCESS_KEY={}", _token(40)),
        ("Take the api key {} for it", _token(32)),
        ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", _token(300)),
        ("-----BEGIN PRIVATE KEY-----\n{}", _token(100) + "/" + _token(100)),
    ]
]
OTHERS = [
    "commit 9f3ab2c71d4e8b6a5c0f1e2d3b4a5968778695a4",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "key: user_profile_cache_v2",
    "primary key: order_id",
    "token: 8192 tokens",
    "The password is wrong.",
    "See https://example.com:8443/a@b and git@github.com:a/b.git",
    "docker run -u 1000:1000 image",
    "api: https://api.example.com/v1/users/42",
    "key=/srv/app/deploy/key-2024.pem",
    "path=$HOME/bin, password=$DB_PASSWORD, password=${{ secrets.DB }}",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text[:16] for text, _ in SECRETS])
async def test_no_credential_comes_back_in_a_summary(text: str, secret: str) -> None:
    """Neither as a fact, nor as a rule, nor in an outline, nor by a summary of summaries."""
    assert secret not in without_credentials(text)
    assert not any(secret in fact.shown for fact in facts_in(text))
    said = [
        ChatMessage("user", f"Always do it so: {text}\n{text}"),
        ChatMessage("assistant", _NOISE),
    ]
    for llm in (ScriptedLLM(lambda _: "Then nothing happened."), None):
        earlier = None
        for _ in range(2):
            earlier = await Summarizer(llm).summarize(said, earlier=earlier)
            assert secret not in earlier.text
            assert LEFT_OUT in earlier.text


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_credential_stays(text: str) -> None:
    assert without_credentials(text) == text


def test_the_rest_of_an_address_stays_a_fact() -> None:
    """Its host is wanted."""
    (fact,) = facts_in("Use postgres://app:S3cr3tPw@db.example.com/shop, please.")
    assert fact.text == f"postgres://app:{LEFT_OUT}@db.example.com/shop"
    assert [again.text for again in facts_in(fact.shown)] == [fact.text]


def test_the_table_names_its_origin_and_its_patterns_compile() -> None:
    """And the rules that are not in it, with reasons."""
    table = json.loads(files("kaosmem.language").joinpath("credentials.json").read_text("utf-8"))
    assert "gitleaks" in table["source"]
    assert len(table["left_out"]) < 10 < len(table["rules"])
    for rule in table["rules"]:
        re.compile(rule["regex"], re.ASCII)
    assert "Zachary Rice" in files("kaosmem.language").joinpath("credentials.LICENSE").read_text()


def _hostile() -> dict[str, str]:
    table = json.loads(files("kaosmem.language").joinpath("credentials.json").read_text("utf-8"))
    keywords = [keyword for rule in table["rules"] for keyword in rule["keywords"]]
    return {
        "keywords": " ".join(keywords),
        "joined keywords": "".join(keywords),
        "keywords with values": "".join(f"{keyword}=ab1 " for keyword in keywords),
        "key=": "key=",
        "tokens": f"token: {_token(20)}\n",
        "passwords": f"password: {_token(20)}\n",
        "open keys": "-----BEGIN PRIVATE KEY",
        "addresses": "://a:",
        "a long value": "password: " + "a" * 90,
    }


@pytest.mark.parametrize("kind", _hostile())
def test_hostile_texts_take_linear_time(kind: str) -> None:
    """Four times the text takes less than 4 ** 1.5 times as long, and a second for 64 KB at most."""
    unit = _hostile()[kind]

    def took(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        began = process_time()
        without_credentials(text)
        return process_time() - began

    took(1 << 14)  # compiles the patterns
    large = took(1 << 16)
    assert large < 1.0
    assert large < 4**1.5 * max(took(1 << 14), 0.002)
