"""Tests epg_tf.reports.html_page: one file, which fetches nothing and runs nothing."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

import pytest

from epg_tf.reports import html_page
from epg_tf.reports.html_page import Code, Fold, Picture, Section, Table, Text

EVIL = "</script></code><script>window.evil = 1</script><img src=x onerror=evil()>"
BLOCKS = [
    Text(EVIL),
    Text("small", note=True),
    Code(EVIL),
    Table((EVIL, "b"), [(EVIL, "2")], numbers=True),
    Picture(EVIL.encode(), EVIL + '"'),
    Fold(EVIL, Code(EVIL)),
]


class Seen(HTMLParser):
    """Collects the tags and the texts of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen(html_page.page(EVIL, [Section(EVIL, BLOCKS)]))


def test_texts_are_shown_and_never_run(seen):
    names = [tag for tag, _ in seen.tags]
    assert "script" not in names and names.count("img") == 1
    assert seen.texts.count(EVIL) >= 8
    assert not any(name.startswith("on") for _, attributes in seen.tags for name in attributes)


def test_the_policy_allows_no_script_and_no_request(seen):
    (policy,) = (
        attributes["content"]
        for tag, attributes in seen.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_nothing_is_fetched(seen):
    for tag, attributes in seen.tags:
        assert tag not in ("link", "iframe", "object", "base", "svg")
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert "url(" not in "".join(seen.texts) and "@import" not in "".join(seen.texts)


def test_a_picture_is_an_image(seen):
    """In which browsers run no script, whatever its bytes are."""
    (image,) = (attributes for tag, attributes in seen.tags if tag == "img")
    kind, _, data = str(image["src"]).partition(",")
    assert kind == "data:image/svg+xml;base64" and base64.b64decode(data) == EVIL.encode()
    assert image["alt"] == EVIL + '"'


def test_a_page_is_recognised(tmp_path):
    (tmp_path / "page.html").write_text(html_page.page("a", []))
    (tmp_path / "other.html").write_text("<!DOCTYPE html>" + " " * 300 + html_page.MARK)
    assert html_page.is_page(tmp_path / "page.html")
    assert not html_page.is_page(tmp_path / "other.html")
    assert not html_page.is_page(tmp_path / "missing.html")
