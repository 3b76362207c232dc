"""Markdown of models on pages: read as it is meant, and nothing in it runs, is loaded, or leaves its place."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.web.markdown import rich_block

HOSTILE = (
    "**x** []() [x](<>)",
    "**bold** <script>alert(1)</script>",
    "# x\n<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "[click](vbscript:x) **y**",
    "![pixel](https://evil.example/x.png)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "<https://evil.example> **z**",
    '[x](https://e.example/"onmouseover="alert(1))',
    "```html\n<script>alert(1)</script>\n```",
    "| a |\n|:-:|\n| <b onclick=alert(1)>x</b> |",
    "**a\u202eb** \x1b[31m&#x202e;",
    "> " * 500 + "deep **x**",
    "[" * 3_000 + "](x)",
    "*" * 5_000,
)
_ALLOWED = {
    "a",
    "p",
    "div",
    "pre",
    "code",
    "small",
    "span",
    "strong",
    "em",
    "s",
    "ul",
    "ol",
    "li",
    "blockquote",
    "hr",
    "br",
}
_ALLOWED |= {"table", "thead", "tbody", "tr", "th", "td"}
_ATTRIBUTES = {"class", "dir", "href", "rel", "title", "start"}


class Seen(HTMLParser):
    """The elements of a piece of HTML, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]


def assert_harmless(text: str) -> None:
    """Check that there are only texts and links."""
    html = str(rich_block(text, "/whole"))
    seen = Seen(html)
    assert seen.tags <= _ALLOWED
    assert seen.attributes <= _ATTRIBUTES
    assert [link for link in seen.links if not re.match(r"https?:|mailto:|/whole$", link)] == []
    assert not {"\u202e", "\x1b"} & set(html)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_harmless(text: str) -> None:
    """No script, picture, handler or style comes of it, no link that runs, and nothing that hides or reorders."""
    assert_harmless(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("*_`#[]()<>!|-:\\\"'&;= \nabx1/.\u202e"), max_size=120))
def test_any_markdown_is_harmless(text: str) -> None:
    """Whatever is put together of what Markdown means something by."""
    assert_harmless(f"**x** {text}")


def test_markdown_reads_as_it_is_meant() -> None:
    """Headings, lists, code and tables are such, headings none of the page's, and all of it raw text is a link."""
    html = str(
        rich_block("# Plan\n\n- one\n- `two`\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |", "/whole")
    )
    for piece in ('<p class="heading-h1">Plan</p>', "<li>one</li>", "<code>two</code>", "x = 1", "<td>1</td>"):
        assert piece in html
    assert '<a href="/whole">raw text</a>' in html
    assert "<h1" not in html


def test_what_is_no_markdown_stays_as_it_is() -> None:
    """Plain texts keep their lines, JSON is indented, and a long text is cut with a link to the whole of it."""
    assert str(rich_block("a\nb")) == '<pre class="text" dir="auto">a\nb</pre>'
    assert '"a": "**b**"' in str(rich_block('{"a": "**b**"}')).replace("&#34;", '"')
    assert "more characters" in str(rich_block("**x** " * 5_000, "/whole"))
