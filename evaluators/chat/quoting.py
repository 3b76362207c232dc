"""Detection of verdicts that were copied from the judged text, in any spelling, escaping, order, or cut off."""

import html
import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from evaluators.chat.lenient import all_values, finite, parts_of
from evaluators.values import Key, key_of, member_keys
from storage.records import JsonValue

_TELLING_CHARACTERS: Final = 16
"""Length from which an equal text is not a coincidence. A guess."""

_ESCAPING = re.compile(r"[\\&%]")  # the name of a field may be escaped
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_CODE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")  # from the first backslash, or it is quadratic
_COMPOSED = re.compile(r"[^\W\d_][\u0300-\u036f]{1,4}")
_JOINT = re.compile(r"(?:\\[nrtbf]|[\s\\\u00ad\u200b-\u200d\u2060\ufeff])++(?:-\s++)*+")
_QUOTES = re.compile(r"[\"'`“”\u2018\u2019]+")
_AT_PUNCTUATION = re.compile(r"(?<=[:,{}\[\]])\"|\"(?=[:,{}\[\]])")
_BRACE = re.compile(r"[{}]")
_NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?")
_EDGES: Final = frozenset('{}[]":')


def is_quoted(verdict: JsonValue, judged: str, required: Collection[str], optional: Collection[str] = ()) -> bool:
    """Return whether the judged text contains the verdict.

    The requested fields are compared, or all if only one was requested; texts are compared by letters and digits. A
    verdict that is only a number, a word or an empty list may equal one by chance. It counts as a quotation only of an
    object that has no other fields, or has all requested ones. A list counts as one only if it contains objects,
    because claims may repeat texts, and `[1]` may be a footnote.
    """
    if not judged or not (_ESCAPING.search(judged) or _is_named(verdict, judged, required)):
        return False
    texts = [judged] if (decoded := _decoded(judged)) == judged else [judged, decoded]
    if not isinstance(verdict, dict):
        is_telling = isinstance(verdict, list) and any(isinstance(each, dict) for each in verdict)
        same = key_of(verdict, _letters)
        return is_telling and any(same == key_of(each, _letters) for text in texts for each in _values_of(text))
    fields = {*required, *optional} if len(required) + len(optional) > 1 else verdict.keys()
    members = {name: value for name, value in verdict.items() if name in fields and value not in ("", None)}
    if not members:
        return False
    is_whole = len(fields) > len(members)
    keys = member_keys(members, _letters)  # once: a long judged text has many objects
    for each in (value for text in texts for value in _values_of(text) if isinstance(value, dict)):
        if all(name in each and _is_same(each[name], value, keys[name]) for name, value in members.items()):
            others = {name for name, value in each.items() if value not in ("", None)} - members.keys()
            if _is_telling(members) or not others or (is_whole and each.keys() >= fields):
                return True
    return _is_telling(members) and len(members) > 1 and _is_near(_plain(f"\n{decoded}"), members)


def _is_named(verdict: JsonValue, judged: str, required: Collection[str]) -> bool:
    if not isinstance(verdict, dict):
        return "[" in judged
    folded = judged.casefold()
    return all(name.casefold() in folded for name in required)


def _is_same(one: JsonValue, other: JsonValue, key_of_other: Key) -> bool:
    return one == other or key_of(one, _letters) == key_of_other  # by `==`, 1 equals true


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold())) or text


def _is_telling(members: Mapping[str, JsonValue]) -> bool:
    """Return whether the values are more than a number or a word, which other objects have by coincidence."""
    least = _TELLING_CHARACTERS if len(members) == 1 else 1
    return any(
        len(value) >= least if isinstance(value, str) else isinstance(value, dict | list) and bool(value)
        for value in members.values()
    )


def _values_of(text: str) -> Iterator[JsonValue]:
    for value in all_values(text):
        yield from parts_of(value)


def _is_near(plain: str, members: Mapping[str, JsonValue]) -> bool:
    """Return True if all members are adjacent, without a brace or another value of these names between them."""
    places = sorted(place for name, value in members.items() for place in _places(plain, _plain(name), value, name))
    seen: dict[str, bool] = {}
    is_member, end = False, 0
    for start, stop, name, is_same in places:
        if name in seen or _BRACE.search(plain, end, start):
            seen, is_member = {}, False
        seen[name] = is_same
        is_member = is_member or plain[start - 1] in _EDGES
        end = max(end, stop)
        if is_member and len(seen) == len(members) and all(seen.values()):
            return True
    return False


def _places(plain: str, name: str, value: JsonValue, key: str) -> Iterator[tuple[int, int, str, bool]]:
    """Yield the start of the name, the end of its value, and whether the value is the same."""
    number = _number(value)
    text = _plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).strip('"')
    same = set() if number is not None else set(_found(plain, f"{name}:{text}"))
    for start in _found(plain, f"{name}:"):
        if plain[start - 1] not in {",", *_EDGES}:
            continue
        at = start + len(name) + 1
        if number is not None:
            other = _NUMBER.match(plain, at)
            yield start, other.end() if other else at, key, other is not None and float(other[0]) == number
        else:
            end = at + len(text)
            is_same = start in same and (end == len(plain) or plain[end] in {",", *_EDGES})
            yield start, end if is_same else at, key, is_same


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return finite(str(value))
    except ValueError:
        return None


def _found(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _decoded(text: str) -> str:
    """Decode the escapes of HTML (twice) and of URLs."""
    for _ in range(2):
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text
    if "%22" in text or "%7B" in text or "%7b" in text:
        text = unquote(text)
    return text


def _plain(text: str) -> str:
    """Remove spaces, escapes and quotes beside punctuation, which a quotation may lose or gain.

    Ends of lines and other quotes become one quotation mark.
    """
    if "\\" in text:
        text = _CODE.sub(lambda code: chr(int(code[1] or code[2], 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not text.isascii():
        text = _COMPOSED.sub(lambda letter: unicodedata.normalize("NFC", letter[0]), text)
    text = _JOINT.sub(_joined, text).casefold()
    return _AT_PUNCTUATION.sub("", _QUOTES.sub('"', text))


def _joined(joint: re.Match[str]) -> str:
    """Replace what stands between words: the end of a line by a quotation mark, the start of an item by a brace."""
    dashes = joint[0].count("-")
    if "\n" in joint[0] or "\\n" in joint[0]:
        return "{" if dashes else '"'
    text, start, end = joint.string, joint.start(), joint.end()
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    return " " if before.isdigit() and after.isalnum() else "-" * dashes
