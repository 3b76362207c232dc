"""Untrusted text as HTML that runs no script, hides or reorders nothing around it, and has a bounded length."""

import json
from typing import Final

from markupsafe import Markup, escape

from collector.beginning import json_beginning
from collector.escaping import UNSAFE

LINE_CHARACTERS: Final = 160
"""Characters of a text that are shown on one line. A guess: they fit beside other things."""

BLOCK_CHARACTERS: Final = 6_000
BLOCK_LINES: Final = 80
"""Maximum of a text shown at once; the rest is behind a link. Guesses: more than a screen, and a page stays small."""

WRITTEN_CHARACTERS: Final = 2 * BLOCK_CHARACTERS
"""Maximum length of the JSON that a value is serialized to, of which a block shows the beginning."""

_KEPT: Final = frozenset("\n\t")
_CUT: Final = '<span class="cut">…</span>'


def one_line(text: object, limit: int = LINE_CHARACTERS) -> Markup:
    """Render a text on one line, cut if it is long."""
    full = str(text)  # joined by hand: `Markup.format` took a third of the time of a list
    line = " ".join(full[: 4 * limit].split())
    is_cut = len(line) > limit or len(full) > 4 * limit
    return Markup(f"<bdi>{visible(line[:limit])}{_CUT if is_cut else ''}</bdi>")  # noqa: S704 - escaped, or made here


def code_line(text: str, limit: int = 4 * LINE_CHARACTERS) -> Markup:
    """Render a line of code with its whitespace, cut if it is long."""
    return Markup(f"<bdi>{visible(text[:limit])}{_CUT if len(text) > limit else ''}</bdi>")  # noqa: S704 - escaped, or made here


def block(text: str, whole: str | None = None, *, limit: int = BLOCK_CHARACTERS) -> Markup:
    """Render a text with its lines; cut if it is long, with a link to the `whole` text if given."""
    if not text.strip():
        return Markup('<p class="quiet">(blank)</p>')  # recorded, but blank; a text that was not captured is left out
    shown, missing = cut_text(text, limit)
    return framed(visible(shown), missing, whole)


def cut_text(text: str, limit: int = BLOCK_CHARACTERS) -> tuple[str, int]:
    """Cut a text to the length that is shown at once; return the number of omitted characters too."""
    normal = text.replace("\r\n", "\n")
    cut = _cut_at(normal, limit)
    return normal[:cut], len(normal) - cut


def framed(shown: Markup, missing: int, whole: str | None = None) -> Markup:
    """Render a text with its lines, and a note on missing characters at its end."""
    framed = Markup('<pre class="text" dir="auto">{}</pre>').format(shown)
    if not missing:
        return framed
    least = "at least " if missing >= BLOCK_CHARACTERS else ""  # JSON was serialized up to `WRITTEN_CHARACTERS`
    rest = f"{least}{missing:,} more characters"
    if whole is None:
        return framed + Markup('<p class="cut">… {}</p>').format(rest)
    return framed + Markup('<p class="cut">… <a href="{}">{}</a></p>').format(whole, rest)


def json_block(value: object, whole: str | None = None, *, limit: int = BLOCK_CHARACTERS) -> Markup:
    """Render any value as indented JSON."""
    return block(_json_text(value), whole, limit=limit)


def value_block(value: object, whole: str | None = None, *, limit: int = BLOCK_CHARACTERS) -> Markup:
    """Render a text, indented if it is JSON; render any other value as JSON."""
    return block(value_text(value, limit=limit), whole, limit=limit)


def value_text(value: object, *, limit: int = BLOCK_CHARACTERS) -> str:
    """Return a text, indented if it is JSON of at most `limit` characters; return any other value as JSON.

    The JSON is cut after `WRITTEN_CHARACTERS`.
    """
    if not isinstance(value, str):
        return _json_text(value)
    stripped = value.strip()
    if len(value) <= limit and stripped[:1] in {"{", "["}:
        try:
            return _json_text(json.loads(stripped))
        except (ValueError, RecursionError):
            pass
    return value


def _json_text(value: object) -> str:
    return json_beginning(value, WRITTEN_CHARACTERS, indent=2)


def _cut_at(text: str, limit: int) -> int:
    """Return the number of characters that are shown at once."""
    at = -1
    for _ in range(BLOCK_LINES):
        at = text.find("\n", at + 1, limit)
        if at < 0:
            return min(len(text), limit)
    return at


def visible(text: str) -> Markup:
    """Escape a text for HTML, and show invisible characters as escapes."""
    if text.isascii() and text.isprintable():
        return escape(text)
    parts: list[Markup] = []
    at = 0
    for match in UNSAFE.finditer(text):
        if match[0] in _KEPT:
            continue
        spelled = match[0].encode("unicode_escape").decode("ascii")
        parts += [escape(text[at : match.start()]), Markup('<span class="ctl">{}</span>').format(spelled)]
        at = match.end()
    return Markup().join([*parts, escape(text[at:])])


def judged_output(metadata: str | None) -> str | None:
    """Return the judged output, or its beginning, that a verdict's metadata keeps; None if it keeps no output."""
    kept = {} if metadata is None or "judgedOutput" not in metadata else json.loads(metadata)
    output = kept.get("judgedOutput")
    if not isinstance(output, str):
        return None
    rest = kept.get("judgedCharacters", 0) - len(output)
    return f"{output}… ({rest} more characters)" if rest > 0 else output
