"""Regular expressions and globs of rules: the subset of RE2's syntax with one meaning in Python and in SQL."""

import functools
from collections.abc import Iterable
from typing import Final

from rules.errors import BadPattern
from rules.pattern import (
    LAST_CHARACTER,
    WORD,
    Alternation,
    Characters,
    CompiledPattern,
    EdgeKind,
    EdgeTest,
    Ranges,
    Repeat,
    Sequence,
    Tree,
    complement,
    includes,
    ranges_of,
    re2,
)

MAX_CHARACTERS: Final = 500
_MAX_DEPTH: Final = 20
_MAX_TIMES: Final = 1_000  # RE2's limit

_DIGIT: Final = ranges_of([(ord("0"), ord("9"))])
_SPACE: Final = ranges_of((ord(character), ord(character)) for character in "\t\n\f\r ")
_LINE_END: Final = ranges_of([(ord("\n"), ord("\n"))])
_ALL: Final = ranges_of([(0, LAST_CHARACTER)])
_CLASSES: Final[dict[str, Ranges]] = {"d": _DIGIT, "w": WORD, "s": _SPACE} | {
    name.upper(): complement(ranges) for name, ranges in {"d": _DIGIT, "w": WORD, "s": _SPACE}.items()
}
_EDGES: Final[dict[str, EdgeKind]] = {"A": "start", "z": "end", "b": "word"}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_HEX_DIGITS: Final = 2
_FLAGS: Final = "is"
_LAST_CASED: Final = 0x1FFFF  # Unicode 16 has the last letter with a case at 1E943


class Pattern:
    """A pattern that both Python and DuckDB run."""

    __slots__ = ("_program", "re2")

    def __init__(self, tree: Tree) -> None:
        self._program = CompiledPattern(tree)
        self.re2 = re2(tree)

    def search(self, text: str) -> bool:
        """Return True if the pattern matches anywhere in the text."""
        return self._program.search(text)


@functools.lru_cache(maxsize=512)
def regex(text: str) -> Pattern:
    """Compile a regular expression, to be searched anywhere in a text.

    Raises:
        BadPattern: the text is not a regular expression, is too long, or uses syntax that is not accepted.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadPattern(f"is longer than {MAX_CHARACTERS} characters")
    return Pattern(_Parser(text).parse())


@functools.lru_cache(maxsize=512)
def glob(text: str) -> Pattern:
    """Compile a glob of a whole text: `*` matches any characters, `?` one, and a backslash escapes both.

    Raises:
        BadPattern: the glob is too long, or ends in a backslash.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadPattern(f"is longer than {MAX_CHARACTERS} characters")
    wild: dict[str, Tree] = {"*": Repeat(Characters(_ALL), 0, None), "?": Characters(_ALL)}
    parts: list[Tree] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            literal = next(characters, None)
            if literal is None:
                raise BadPattern("ends in a backslash; write two to mean one")
            parts.append(_one(literal))
        else:
            parts.append(wild.get(character) or _one(character))
    return Pattern(Sequence((EdgeTest("start"), *parts, EdgeTest("end"))))


class _Parser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignores_case = False
        self._dot = complement(_LINE_END)

    def parse(self) -> Tree:
        self._flags()
        tree = self._choice()
        if self._at < len(self._text):
            raise self._wrong("a ) without its (")
        return tree

    def _flags(self) -> None:
        if not self._text.startswith("(?") or self._text.startswith("(?:"):
            return
        end = self._text.find(")")
        flags = self._text[2:end]
        if end < 0 or not flags or set(flags) - set(_FLAGS):
            raise BadPattern("starts with a group of a kind that is not taken; there are (?:…), (?i), (?s) and (?is)")
        self._ignores_case = "i" in flags
        self._dot = _ALL if "s" in flags else self._dot
        self._at = end + 1

    def _choice(self) -> Tree:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, part: Tree) -> Tree:
        times = self._times()
        if times is None:
            return part
        if isinstance(part, EdgeTest):
            raise self._wrong("an edge of the text or of a word cannot be repeated")
        self._take("?")  # laziness does not affect whether it matches
        if self._next() in {"*", "+", "?"} or self._counted() is not None:
            raise self._wrong("a repetition is repeated; put brackets around the inner one")
        return Repeat(part, *times)

    def _times(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        bounds = simple.get(self._next())
        if bounds is not None:
            self._at += 1
            return bounds
        counted = self._counted()
        if counted is None:
            return None
        times, self._at = counted
        return times

    def _counted(self) -> tuple[tuple[int, int | None], int] | None:
        """Return the bounds in braces and the position after them, or None without braces."""
        if self._next() != "{":
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_count(least) or (most and not _is_count(most)):
            raise self._wrong(r"a { that starts no repetition such as {2}, {2,} or {2,5}; write \{ to mean the brace")
        bounds = int(least), (int(most) if most else None) if comma else int(least)
        if max(bounds[0], bounds[1] or 0) > _MAX_TIMES or (bounds[1] is not None and bounds[1] < bounds[0]):
            raise self._wrong(f"a repetition goes from fewer to more, up to {_MAX_TIMES}")
        return bounds, end + 1

    def _atom(self) -> Tree:
        character = self._text[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                return Characters(self._dot)
            case "^":
                return EdgeTest("start")
            case "$":
                return EdgeTest("end")
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                raise self._wrong(f"a {character} with nothing before it to repeat; write \\{character} to mean it")
            case _:
                return self._characters(_single(character))

    def _group(self) -> Tree:
        if self._text.startswith("?", self._at) and not self._text.startswith("?:", self._at):
            raise self._wrong(
                "a group of a kind that is not taken: names, look-around and flags inside; there are (…), (?:…), "
                "and at the very start (?i), (?s), (?is)"
            )
        self._at += 2 if self._next() == "?" else 0
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise BadPattern(f"has groups more than {_MAX_DEPTH} deep")
        inner = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise self._wrong("a ( without its )")
        return inner

    def _escaped(self) -> Tree:
        name = self._next()
        if name in _CLASSES:
            self._at += 1
            return Characters(_CLASSES[name])
        if name in _EDGES:
            self._at += 1
            return EdgeTest(_EDGES[name])
        return self._characters(_single(self._literal()))

    def _literal(self) -> str:
        """Return the character that a backslash names."""
        name = self._next()
        self._at += 1
        if name in _CONTROLS:
            return _CONTROLS[name]
        if name == "x":
            return self._by_number()
        if not name or name.isalnum() or not name.isascii():
            raise self._wrong(rf"\{name} is not taken; there are \d \w \s \D \W \S \b \A \z \t \n \r \f \v \xHH")
        return name

    def _by_number(self) -> str:
        braced = self._next() == "{"
        end = self._text.find("}", self._at) if braced else self._at + _HEX_DIGITS
        digits = self._text[self._at + braced : max(end, 0)]
        try:
            character = chr(int(digits, 16)) if digits.isalnum() and (braced or len(digits) == _HEX_DIGITS) else ""
            character.encode()
        except (ValueError, OverflowError):
            character = ""
        if not character:
            raise self._wrong(r"\x wants two hex digits, or in braces those of a character: \x0a, \x{1f600}")
        self._at = end + braced
        return character

    def _set(self) -> Tree:
        negated = self._take("^")
        pairs: list[tuple[int, int]] = []
        first = True
        while first or self._next() != "]":
            if not self._next():
                raise self._wrong("a [ without its ]")
            pairs += self._member()
            first = False
        self._at += 1
        ranges = self._cased(ranges_of(pairs))
        ranges = complement(ranges) if negated else ranges
        if not ranges:
            raise self._wrong("a set that no character is in")
        return Characters(ranges)

    def _member(self) -> Iterable[tuple[int, int]]:
        """Return a class, a character, or a range of characters inside brackets."""
        if self._text.startswith("\\", self._at) and self._text[self._at + 1 : self._at + 2] in _CLASSES:
            self._at += 2
            return _CLASSES[self._text[self._at - 1]]
        low = self._set_character()
        if self._next() != "-" or self._text[self._at + 1 : self._at + 2] in {"]", ""}:
            return [(low, low)]
        self._at += 1
        high = self._set_character()
        if high < low:
            raise self._wrong("a range in brackets goes from the lower character to the higher")
        return [(low, high)]

    def _set_character(self) -> int:
        character = self._next()
        if not character:
            raise self._wrong("a [ without its ]")
        if character == "[":
            raise self._wrong(r"a [ inside of brackets; write \[ to mean it")
        self._at += 1
        return ord(self._literal() if character == "\\" else character)

    def _characters(self, ranges: Ranges) -> Characters:
        return Characters(self._cased(ranges))

    def _cased(self, ranges: Ranges) -> Ranges:
        if not self._ignores_case:
            return ranges
        others = (other for code, forms in _cases() if includes(ranges, code) for other in forms)
        return ranges_of([*ranges, *((other, other) for other in others)])

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        taken = self._next() == character
        self._at += taken
        return taken

    def _wrong(self, what: str) -> BadPattern:
        return BadPattern(f"is not a supported regular expression, at character {self._at}: {what}")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_TIMES))


def _single(character: str) -> Ranges:
    return ((ord(character), ord(character)),)


def _one(character: str) -> Tree:
    return Characters(_single(character))


@functools.cache
def _cases() -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return each character with other cases, and those of its other cases that are a single character."""
    cases = []
    for code in range(_LAST_CASED + 1):
        character = chr(code)
        forms = {form for form in (character.lower(), character.upper()) if len(form) == 1} - {character}
        if forms:
            cases.append((code, tuple(map(ord, sorted(forms)))))
    return tuple(cases)
