"""Untrusted Markdown as HTML that runs no script, loads nothing, and stays within its block."""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from collector.web.text import BLOCK_CHARACTERS, cut_text, value_block, value_text, visible

_LOOKS_LIKE_IT: Final = re.compile(
    r"^ {0,3}(?:#{1,6} \S|```|~~~|[-*+] +\S|\d{1,3}[.)] +\S|> ?\S|\|.*\|\s*$)|\*\*\S|__\S|`[^`\n]+`|\]\(", re.MULTILINE
)
_SCHEMES: Final = frozenset({"http", "https", "mailto"})


def rich_block(value: object, whole: str | None = None, *, limit: int = BLOCK_CHARACTERS) -> Markup:
    """Render a message: Markdown as such, JSON indented, any other text as it is."""
    return _rich(value, whole, limit) or value_block(value, whole, limit=limit)


def _rich(value: object, whole: str | None, limit: int) -> Markup | None:
    """Render Markdown; None if the value is JSON, or no Markdown. `whole` is a link to the raw text."""
    if not isinstance(value, str) or (value.lstrip()[:1] in {"{", "["} and value_text(value, limit=limit) != value):
        return None
    shown, missing = cut_text(value, limit)
    if not _LOOKS_LIKE_IT.search(shown):
        return None
    body = Markup('<div class="rich" dir="auto">{}</div>').format(Markup(_MARKDOWN.render(shown)))  # noqa: S704 - `_MARKDOWN` escapes text and allows no HTML
    if whole is None:
        return body + (Markup('<p class="cut">… {:,} more characters</p>').format(missing) if missing else Markup())
    link_text = f"{missing:,} more characters" if missing else "raw text"
    return body + Markup('<p class="cut">{}<a href="{}">{}</a></p>').format("… " if missing else "", whole, link_text)


def _is_harmless(url: str) -> bool:
    try:
        return urlsplit(url.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _text(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    return visible(tokens[at].content)


def _code(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    return Markup("<code>{}</code>").format(visible(tokens[at].content))


def _block_of_code(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    language = tokens[at].info.strip().split(" ")[0][:30]
    label = Markup('<small class="language">{}</small>').format(visible(language)) if language else Markup()
    return label + Markup('<pre class="text code" dir="ltr">{}</pre>').format(visible(tokens[at].content))


def _heading(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    return f'<p class="heading-{escape(tokens[at].tag)}">' if tokens[at].nesting > 0 else "</p>"


def _cell(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    return f"<{escape(tokens[at].tag)}>"


def _image(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    text = tokens[at].content or str(tokens[at].attrGet("src") or "")
    return Markup('<span class="media">image: {} <small>not loaded</small></span>').format(visible(text[:160]))


def _link(_: object, tokens: Sequence[Token], at: int, *__: object) -> str:
    href = str(tokens[at].attrGet("href") or "")
    if not href:  # `[text]()`, which would lead to the page itself
        return "<a>"
    return Markup('<a href="{}" rel="noopener noreferrer nofollow" title="{}">').format(
        href, visible(href[:300]).striptags()
    )


_RULES: Final = {
    "text": _text,
    "code_inline": _code,
    "code_block": _block_of_code,
    "fence": _block_of_code,
    "heading_open": _heading,
    "heading_close": _heading,
    "th_open": _cell,
    "td_open": _cell,
    "image": _image,
    "link_open": _link,
}


def _markdown() -> MarkdownIt:
    options: dict[str, Any] = {"html": False, "breaks": True, "linkify": False}
    markdown = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    markdown.validateLink = _is_harmless  # type: ignore[method-assign] # the library's documented way to replace it
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


_MARKDOWN: Final = _markdown()
