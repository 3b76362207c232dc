"""Regular expressions end soon whatever they are applied to: each is tried on texts that make expressions slow."""

import ast
import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, Final

import pytest

import collector
import evaluators
import rules
import storage

PACKAGES: Final = (collector, evaluators, rules, storage)
DEADLINE_CPU_S: Final = 0.5
"""A limit between linear matching, which takes milliseconds, and quadratic or exponential matching."""
LENGTH: Final = 20_000
MANY: Final = 1_000
BEHIND: Final = "\0"

METHODS: Final = {"match": "match", "fullmatch": "fullmatch"} | dict.fromkeys(
    ("search", "sub", "subn", "split", "findall", "finditer", "scanner"), "search"
)

Pattern = re.Pattern[str] | re.Pattern[bytes]


def values_of(value: object) -> Iterator[Pattern]:
    """Yield the patterns in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from values_of(each)
    elif isinstance(value, Mapping):
        yield from values_of(list(value.values()))


def uses_in(module: ModuleType) -> Iterator[tuple[Pattern, str]]:
    """Yield the patterns that a module calls by name, or has as literals in calls of `re`, each with the method."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_bytes())):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=str(text)), *_]
            ) if method in METHODS:
                flags = next((ast.unparse(each.value) for each in node.keywords if each.arg == "flags"), "0")
                yield re.compile(text, eval(flags)), method  # noqa: S307 - our own source
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in METHODS:
                value = vars(module).get(name)
                if isinstance(value, re.Pattern):
                    yield value, method


def every_use() -> dict[Pattern, set[str]]:
    """Return the patterns of the packages, each with the methods that are called, of it or in its module."""
    uses: dict[Pattern, set[str]] = {}
    for package in PACKAGES:
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.endswith("__main__"):
                continue
            module = importlib.import_module(info.name)
            used = [*uses_in(module)]
            for pattern, method in used:
                uses.setdefault(pattern, set()).add(METHODS[method])
            others = {*values_of(list(vars(module).values()))} - {pattern for pattern, _ in used}
            if others:
                source = Path(str(module.__file__)).read_text()
                methods = {method for name, method in METHODS.items() if f".{name}(" in source}
                for pattern in others:
                    uses.setdefault(pattern, set()).update(methods)
    return uses


REPEATS: Final = {sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT}


def inner(kind: object, value: Any) -> list[Any]:
    """Return the patterns within a part of a parsed pattern; of a choice, each."""
    if kind in REPEATS:
        return [value[2]]
    if kind is sre.SUBPATTERN:
        return [value[3]]
    if kind is sre.BRANCH:
        return list(value[1])
    if kind in {sre.ASSERT, sre.ASSERT_NOT}:
        return [value[1]]
    return [value] if kind is sre.ATOMIC_GROUP else []


def sample(tree: Any, choice: int = 0) -> str:
    """Return a text that the parsed pattern matches; `choice` selects characters of sets and branches."""
    text = ""
    for kind, value in tree:
        if kind is sre.LITERAL:
            text += chr(value)
        elif kind in {sre.NOT_LITERAL, sre.ANY}:
            text += next(each for each in 'a0 "'[choice % 4] + "ab" if kind is sre.ANY or ord(each) != value)
        elif kind is sre.IN:
            text += of_set(value, choice)
        elif kind not in {sre.ASSERT, sre.ASSERT_NOT}:
            within = inner(kind, value)
            times = max(value[0], min(1, int(value[1]))) if kind in REPEATS else 1
            text += sample(within[choice % len(within)], choice) * times if within else ""
    return text


def of_set(members: Any, choice: int) -> str:
    """Return a character of a set."""
    fitting = [each for each in "a0 A_.-,:;\"'\\/{}[]()<>=+*`~|#&@%$!?\n\t\r\u00e9\u4e2d" if is_in(each, members)]
    if fitting:
        return fitting[choice * 7 % len(fitting)]
    return next(chr(point) for point in range(0x110000) if is_in(chr(point), members))


CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def is_in(character: str, members: Any) -> bool:
    """Return whether a parsed set has a character."""
    negated = False
    has = False
    for kind, value in members:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            has |= ord(character) == value
        elif kind is sre.RANGE:
            has |= value[0] <= ord(character) <= value[1]
        elif kind is sre.CATEGORY:
            has |= re.match(CATEGORIES[value], character) is not None
    return has != negated


def pumped(tree: Any, before: str = "", after: str = "") -> Iterator[str]:
    """Yield texts that repeat what a repetition of the pattern matches, each with an end that the rest refuses."""
    parts = list(tree)
    for number, (kind, value) in enumerate(parts):
        left, right = before + sample(parts[:number]), sample(parts[number + 1 :]) + after
        if kind in REPEATS and int(value[1]) > MANY:
            bodies = {sample(value[2], choice) for choice in range(4)}
            yield from (left + repeated(body) + end for body in bodies for end in {BEHIND, right + BEHIND})
        for each in inner(kind, value):
            yield from pumped(each, left, right)
    if not before:
        yield repeated(sample(parts)) + BEHIND
        yield repeated(sample(parts)[:1]) + BEHIND


def repeated(text: str) -> str:
    """Return a long text that repeats this one."""
    return (text * LENGTH)[:LENGTH]


class Late(Exception):
    """The exception of an exceeded deadline."""


@pytest.fixture(name="deadline")
def _deadline() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGVTALRM, late)
    yield
    signal.signal(signal.SIGVTALRM, before)


def slow_text(pattern: Pattern, methods: set[str]) -> str | None:
    """Return a text on which the pattern does not end in time."""
    raw = pattern.pattern
    for text in dict.fromkeys(pumped(parser.parse(raw, pattern.flags))):
        subject = text.encode("latin-1", "replace") if isinstance(raw, bytes) else text
        for name in sorted(methods):
            signal.setitimer(signal.ITIMER_VIRTUAL, DEADLINE_CPU_S)
            try:
                getattr(pattern, name)(subject)
            except Late:
                return f"{name} {text[:40]!r}…{text[-12:]!r}"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


@pytest.mark.usefixtures("deadline")
def test_no_expression_is_slow_on_a_text_made_for_it() -> None:
    """Each expression ends on long repetitions of each of its parts with an end that it refuses."""
    slow = {pattern.pattern: text for pattern, methods in every_use().items() if (text := slow_text(pattern, methods))}
    assert slow == {}


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize(
    "slow, quick, method",
    [
        (r'"((?:[^"]+|"")*)"(?=,|\Z)', r'"([^"]*+(?:""[^"]*+)*+)"(?=,|\Z)', "match"),
        (r"([0-9]+)(ns|s)", r"(?<![0-9])([0-9]++)(ns|s)", "search"),
    ],
)
def test_a_slow_expression_is_recognized(slow: str, quick: str, method: str) -> None:
    """The texts make an exponential and a quadratic expression slow, and what replaces them not."""
    assert slow_text(re.compile(slow), {method}) is not None
    assert slow_text(re.compile(quick), {method}) is None
