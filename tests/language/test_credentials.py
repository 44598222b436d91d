"""Credentials are found in a text, and nothing that only looks a little like them."""

import json
import random
import re
import string
import tomllib
from importlib.resources import files
from time import process_time

import pytest

from kaosmem import ChatMessage
from kaosmem.compaction import Summarizer
from kaosmem.compaction.facts import facts_in
from kaosmem.language.credentials import CREDENTIAL_PLACEHOLDER, without_credentials
from kaosmem.testing import ScriptedLLM

_RANDOM = random.Random(0)
_NOISE = "Then nothing much happened for a while. " * 60


_HEX = "0123456789abcdef"


def _token(chars, alphabet=string.ascii_letters + string.digits):
    return "".join(_RANDOM.choices(alphabet, k=chars))


# Each text with a credential, and the credential. They are made here, so that no scanner finds one
# in this file.
SECRETS = [
    (text.format(secret), secret)
    for text, secret in [
        ("The Vault token is {}", "hvs." + _token(40)),
        ("Airtable: {}", f"pat{_token(14)}.{_token(64, _HEX)}"),
        ("Mailgun has {} for it", "key-" + _token(32, _HEX)),
        ("user: admin, pass: {}", "Kq8-zz-02"),
        ("We changed the password to {}.", "Kq8zz02x"),
        ("Cookie: session={}; theme=dark", _token(24) + "7"),
        ("Sign in with {} please.", "AKIA" + _token(16, string.ascii_uppercase + "234567")),
        ("The GitHub token is {}", "ghp_" + _token(36)),
        ("OPENAI_API_KEY={}", "sk-proj-" + _token(74) + "T3BlbkFJ" + _token(74)),
        ("Slack: {}.", f"xoxb-123456789012-1234567890123-{_token(24)}"),
        ("Use postgres://app:{}@db.example.com:5432/shop", "S3cr3tPw"),
        ("redis://:{}@cache:6379/0", "p4ssw0rd"),
        ("The password is {}!", "hunter2"),
        ("Das Passwort lautet {}.", "Blume77x"),
        ("Das Passwort für das WLAN lautet {}!", "Sommer2024"),
        ("Le mot de passe du serveur est {}.", "Zx9-korvo77"),
        ("La contraseña de la base es {}.", "G4to#Negro88"),
        ("Пароль от сервера: {}", "Zima2024x"),
        ("The PIN for the door is {}.", "447193"),
        ("name: maria, pw: {}", "Kuchen77!x"),
        ("密码是{}", "abc12345"),
        ("Run curl -u admin:{} https://example.com", "S3cret99"),
        ("Authorization: Bearer {}", _token(40)),
        ('{{"password": "{}"}}', "Tr0ub4dor&3"),
        ('login({{"user": "maria", "pass": "{}"}})', "hunterhunter"),
        ('unlock({{"passphrase": "{}"}})', "correct horse battery"),
        ('pay({{"pin": "{}"}})', "4711"),
        ("AWS_SECRET_ACCESS_KEY={}", _token(40)),
        ("Take the api key {} for it", _token(32)),
        ("My DeepSeek key is {}", "sk-" + _token(32, _HEX)),
        ("Use {} for it", "sk-or-v1-" + _token(64, _HEX)),
        ("The Groq key is {}", "gsk_" + _token(52)),
        ("Here: {}", "xai-" + _token(80)),
        ("Here: {}", "tvly-dev-" + _token(32)),
        ("Here: {}", f"lsv2_pt_{_token(32, _HEX)}_{_token(10, _HEX)}"),
        ("Here: {}", "r8_" + _token(37)),
        ("Here: {}", "sbp_" + _token(40, _HEX)),
        ("Here: {}", f"pcsk_{_token(6)}_{_token(60)}"),
        ("Here: {}", "pplx-" + _token(48)),
        ("Here: {}", "nvapi-" + _token(64)),
        ("Run mysql -u root -p{} shop", "Hq77ppQ2"),
        ("Run mysqldump -uroot -p'{}' shop", "Hq77ppQ2"),
        ("sshpass -p '{}' ssh a@b", "Hq77ppQ2"),
        ("docker login -u me -p {}", "Hq77ppQ2"),
        ("redis-cli -a {} ping", "Hq77ppQ2"),
        ("psql --password={} shop", "Hq77ppQ2"),
        ("deploy --api-key {} now", "Hq77ppQ2"),
        ("MYSQL_PWD={} mysql", "Hq77ppQ2"),
        ("postgres://u:{}@h/db", "Hq77@pQ2"),
        ("https://a.blob.core.windows.net/c?sv=2022&sig={}", _token(43) + "%3D"),
        ("login: admin / {}", "Kq8-zz-02"),
        ("Log in as admin with {}.", "Kq8-zz-03"),
        ("Your one-time code is {}.", "481516"),
        ("验证码：{}", "481516"),
        ("The password is '{}'.", "correcthorsebattery"),
        ("Пароль: {}", "Zima2024-x"),
        ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", _token(300)),
        ("-----BEGIN PRIVATE KEY-----\n{}", _token(100) + "/" + _token(100)),
    ]
]
OTHERS = [
    'check({"pass": true, "secret": "required", "pin": 7})',
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
    # Texts that only speak of credentials.
    "Please reset your password: the old one expired on Friday.",
    "The password must have 12 characters, with one digit and one sign.",
    "Password rules: at least 8 characters, no reuse of the last 5.",
    "The password for the guest network of building 4 must have 12 characters.",
    "The password for the shop is stored in vault-3.",
    "Reset the password of user 17: ask admin@example.org first.",
    "The PIN of the terminal is 6 digits long.",
    "Where is the password stored? In the vault, under shop/prod.",
    "The login page has 3 fields: name, password and code.",
    "login / logout take 2 seconds; see login.py and logout.py",
    "Log in as admin with care.",
    "Sign in as Anna with your badge.",
    "The exit code is 137, the error code is 40012.",
    "The zip code is 10115 and the area code is 0305.",
    "Die Postleitzahl ist 10115, das Kennwort ist falsch.",
    "El código es correcto; la contraseña es incorrecta.",
    "Le mot de passe est oublié depuis 2023.",
    "密码是必填项。",
    "パスワードは必須です。",
    "The secret is to test early, and the key is patience.",
    "The token is expired since 2024-05-01.",
    # Hashes, ids and versions.
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "md5 d41d8cd98f00b204e9800998ecf8427e of the file",
    "Merged 4b825dc into main; revert with git revert 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "image: registry.example.com/shop@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "order ORD-2024-000123, invoice INV-99812, ticket PROJ-4411",
    "run_id=20240501_123000 and trace 4bf92f3577b34da6a3ce929d0e0e4736",
    "sk-learn and scikit-learn-contrib, fc-cache and re_compile_pattern_2",
    "pip install torch==2.3.1+cu121 --index-url https://download.example.com/whl/cu121",
    "https://example.com/search?key=name&page=2&token=next",
    "https://example.com/v?id=dQw4w9WgXcQ&list=PL590L5WQmH8fJ54F369BLDSqIwcs-TCfs",
    # Commands.
    "docker run -p 8080:80 -e MODE=prod shop",
    "mysql -u root -p shop",
    "ssh -p 2222 admin@host; mkdir -p build/out2",
    "tar -xzf a.tgz && cp -p file1 file2",
    "deploy --token $TOKEN --password <your-password> --secret ***",
    "pytest -p no:cacheprovider -k login_2",
    "user: admin, and pass: it went well",
    "We changed the password to something longer.",
    "Cookie: none",
    "Set the secret:\n  nothing is stored",
    "The patch key-value store is patient.",
    "slide 12/40; figure 2b; cap. 2; col 3",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[text[:16] for text, _ in SECRETS])
async def test_no_credential_comes_back_in_a_summary(text, secret):
    """Neither as a fact, nor as a rule, nor in an outline, nor by a summary of summaries."""
    assert secret not in without_credentials(text)
    assert not any(secret in fact.shown for fact in facts_in(text))
    said = [
        ChatMessage("user", f"Always do it so: {text}\n{text}"),
        ChatMessage("assistant", _NOISE),
    ]
    for llm in (ScriptedLLM(lambda _: "Then nothing much happened for a while."), None):
        earlier = []
        for _ in range(2):
            earlier = [await Summarizer(llm).summarize([*earlier, *said])]
            assert secret not in earlier[0].text
            assert CREDENTIAL_PLACEHOLDER in earlier[0].text


def test_a_secret_on_the_line_after_its_name_is_left_out():
    """As in YAML."""
    for text in ("secret:\n  {}\n", "kind: Secret\napi_key: |\n    {}", "token:\n  value: {}"):
        found = without_credentials(text.format("Kq8zz02x7"))
        assert found == text.format(CREDENTIAL_PLACEHOLDER)


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_credential_stays(text):
    assert without_credentials(text) == text


def test_the_rest_of_an_address_stays_a_fact():
    """Its host is wanted."""
    (fact,) = facts_in("Use postgres://app:S3cr3tPw@db.example.com/shop, please.")
    assert fact.text == f"postgres://app:{CREDENTIAL_PLACEHOLDER}@db.example.com/shop"
    assert [again.text for again in facts_in(fact.shown)] == [fact.text]


def test_the_table_names_its_origin_and_its_patterns_compile():
    """And the rules that are not in it, with reasons."""
    table = json.loads(files("kaosmem.language").joinpath("credentials.json").read_text("utf-8"))
    assert "gitleaks" in table["source"]
    assert len(table["left_out"]) < 10 < len(table["rules"])
    for rule in (*table["rules"], *_said()):
        re.compile(rule["regex"], re.ASCII)
    assert "Zachary Rice" in files("kaosmem.language").joinpath("credentials.LICENSE").read_text()


def _said():
    text = files("kaosmem.language").joinpath("credentials_said.toml").read_text("utf-8")
    return tomllib.loads(text)["rules"]


def _hostile():
    table = json.loads(files("kaosmem.language").joinpath("credentials.json").read_text("utf-8"))
    rules = [*table["rules"], *_said()]
    keywords = [keyword for rule in rules for keyword in rule["keywords"]]
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
        "commands": "mysql -p mysql docker login sshpass ",
        "prefixes": "sk-ab-ab-ab-",
        "flags": " --a-b-c-token",
        "logins": "login a/ credentials b: ",
    }


@pytest.mark.timed
@pytest.mark.parametrize("kind", _hostile())
def test_hostile_texts_take_linear_time(kind):
    """Four times the text takes less than 4 ** 1.5 times as long, and a second for 64 KB at most."""
    unit = _hostile()[kind]

    def took(size):
        text = (unit * (size // len(unit) + 1))[:size]
        began = process_time()
        without_credentials(text)
        return process_time() - began

    took(1 << 14)  # compiles the patterns
    large = took(1 << 16)
    assert large < 1.0
    assert large < 4**1.5 * max(took(1 << 14), 0.002)
