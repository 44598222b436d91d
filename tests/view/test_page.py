"""The page's file: one file, no network, hostile texts as escaped JSON; and its server's token."""

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

import kaosmem
from kaosmem import SessionMemory
from kaosmem.view.page import html_page
from kaosmem.view.serve import LivePage, view_app
from tests.view.pages import hostile_page

FRONTEND = Path(__file__).parents[2] / "frontend"
TOKEN = "a-token-for-this-test"


class _Elements(HTMLParser):
    """Collects the elements of a page as an HTML parser sees them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


async def test_hostile_texts_stay_texts():
    """A parser finds the page's own elements and no other, whatever the texts are."""
    data = await hostile_page()
    page = "".join(html_page(data))
    parser = _Elements()
    parser.feed(page)
    tags = [tag for tag, _ in parser.found]
    blocks = len(data.turns) + 2
    own = ["html", "head", "meta", "meta", "meta", "meta", "title", "style", "body", "div"]
    assert tags == [*own, "noscript", *["script"] * (blocks + 1)]
    assert [attrs.get("type") for tag, attrs in parser.found if tag == "script"] == [
        *["application/json"] * blocks,
        None,
    ]
    for match in re.finditer(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S):
        assert not set("<>&\u2028\u2029") & set(match[1])


async def test_the_policy_allows_the_own_script_alone():
    """The policy names hashes of the script and the style, no host, and no inline script."""
    page = "".join(html_page(await hostile_page()))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert "http" not in policy[1]
    assert policy[1].count("'sha256-") == 2


def test_the_bundle_is_built_from_the_sources():
    """The script in the package names the digest of `frontend/src`: `npm run build` makes it anew."""
    sources = hashlib.sha256()
    for path in sorted((FRONTEND / "src").iterdir()):
        sources.update(path.read_bytes())
    script = Path(kaosmem.__file__).parent / "view" / "assets" / "page.js"
    assert script.read_text().startswith(f"/* sources {sources.hexdigest()}; ")


@pytest.fixture
def live(tmp_path):
    return LivePage(str(tmp_path), "s", "default")


async def test_a_live_page_needs_its_token_and_its_own_name(tmp_path, live):
    """Without the token, or by another host's name, the server tells nothing."""
    async with SessionMemory.open(tmp_path, "s", trace=True) as memory:
        memory.add("findings", "Ann owns the deal.")
        await memory.assemble_context("deal?", budget=100)
    transport = httpx.ASGITransport(view_app(live, TOKEN))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get("/")).status_code == 403
        assert (await client.get("/news", headers={"X-Token": "wrong"})).status_code == 403
        page = await client.get("/", params={"token": TOKEN})
        assert page.status_code == 200
        assert "Ann owns the deal." in page.text
        assert "connect-src 'self'" in page.text
        assert page.headers["x-frame-options"] == "DENY"
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.test") as client:
        assert (await client.get("/", params={"token": TOKEN})).status_code == 400


async def test_a_live_page_gets_the_new_turns(tmp_path, live):
    """After another turn is saved, the news has its line, its data and the items."""
    headers = {"X-Token": TOKEN}
    transport = httpx.ASGITransport(view_app(live, TOKEN))
    async with (
        SessionMemory.open(tmp_path, "s", trace=True) as memory,
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        memory.add("findings", "Ann owns the deal.")
        await memory.assemble_context("deal?", budget=100)
        await memory.save()
        first = (await client.get("/news?after=0", headers=headers)).json()
        assert list(first["data"]) == ["1"]
        assert (await client.get("/news?after=1", headers=headers)).json() == {"number": 1}
        item = memory.add("findings", "The deal closes in May.")
        await memory.assemble_context("when?", budget=100)
        await memory.save()
        news = (await client.get("/news?after=1", headers=headers)).json()
        assert list(news["data"]) == ["2"]
        assert [line["query"] for line in news["session"]["turns"]] == ["deal?", "when?"]
        assert news["items"][item.id]["text"] == "The deal closes in May."


async def test_an_erased_turn_shows_its_sums_alone():
    """The page of a session has no text of an erased item, and the turn's tokens."""
    from kaosmem.view.page import page_data

    memory = SessionMemory.test_mode(trace=True)
    item = memory.add("findings", "The password is swordfish.")
    await memory.assemble_context("password?", budget=100)
    await memory.save()
    await memory.forget(item.id)
    data = page_data(memory._session)
    assert "swordfish" not in "".join(html_page(data))
    assert data.session["turns"][0]["erased"]
    assert data.session["turns"][0]["used"] > 0
