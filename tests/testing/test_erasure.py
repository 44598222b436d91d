"""The oracle of erasure finds a text wherever and however a file may hold it."""

import gzip
import io
import json
import zipfile
import zlib
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.testing import paths_holding


def zipped(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", data)
    return buffer.getvalue()


def as_array(data):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, texts=np.array([data.decode()]))
    return buffer.getvalue()


SPELLINGS = {
    "plain": lambda text: text.encode(),
    "upper case": lambda text: text.upper().encode(),
    "JSON": lambda text: json.dumps({"text": text}, ensure_ascii=False).encode(),
    "escaped JSON": lambda text: json.dumps({"text": text}).encode(),
    "JSON in JSON": lambda text: json.dumps(json.dumps({"text": text})).encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "in a URL": lambda text: quote(text).encode(),
    "hexadecimal": lambda text: text.encode().hex().upper().encode(),
    "base64": lambda text: b64encode(text.encode()),
    "base64 for URLs": lambda text: urlsafe_b64encode(b"?>" + text.encode()),
    "gzip": lambda text: gzip.compress(text.encode()),
    "zlib": lambda text: zlib.compress(text.encode(), 9),
    "zip": lambda text: zipped(text.encode()),
    "zip in gzip": lambda text: gzip.compress(zipped(text.encode())),
    "a compressed array": lambda text: as_array(text.encode()),
    "the beginning of a gzip file": lambda text: gzip.compress(
        text.encode() + np.random.default_rng(0).bytes(9_000)
    )[:-90],
}


@pytest.mark.parametrize("how", SPELLINGS)
@settings(max_examples=12)
@given(
    text=st.sampled_from(
        ["quetzalcoatl", "Straße 龘靐", 'a "quoted"\\ back\nslash', "🦤 of DE89 3704"]
    ),
    before=st.binary(max_size=7),
    after=st.binary(max_size=7),
)
def test_a_text_is_found_in_every_spelling(how, text, before, after):
    """Whatever stands around it; another text is not found."""
    data = before + SPELLINGS[how](f"It is {text}, I think.") + after
    assert paths_holding({"a": b"nothing", "b": data, "folder": None}, text) == ["b"]
    assert paths_holding({"b": data}, "jabberwocky") == []


@given(st.binary(max_size=3), st.text(min_size=4, max_size=20), st.binary(max_size=3))
def test_a_text_is_found_at_each_place_in_base64(before, text, after):
    """Three bytes are four digits, so that the same text has three spellings."""
    assert paths_holding({"a": b64encode(before + text.encode() + after)}, text) == ["a"]


@pytest.mark.parametrize("kind", ["folder", "filesystem"])
def test_all_files_below_a_place_are_searched(kind, tmp_path):
    """Hidden and temporary files, and the names of files and folders."""
    place = tmp_path if kind == "folder" else IsolatedMemoryFileSystem()
    names = ["x/.hidden.tmp", "plain", "x/y/jabberwocky"]
    for name in names:
        if isinstance(place, Path):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(
                b"Jabberwocky" if "plain" in name or "tmp" in name else b"nothing"
            )
        else:
            place.pipe_file(
                f"/{name}", b"Jabberwocky" if "plain" in name or "tmp" in name else b"nothing"
            )
    assert [path.strip("/") for path in paths_holding(place, "jabberwocky")] == sorted(
        ["x/.hidden.tmp", "plain", "x/y/jabberwocky"]
    )
