"""Refusals that come from a limit name its value, what changes it, and the remedy."""

import ast
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from collector.listeners.closed_connections import ClosedConnections, Reason
from collector.listeners.connection_limits import ConnectionLimits
from collector.settings import Settings
from storage.limit import Limit

_ROOT: Final = Path(__file__).parent.parent
_FILES: Final = sorted(path for part in ("collector", "evaluators", "storage") for path in (_ROOT / part).rglob("*.py"))

_OF_A_LIMIT: Final = re.compile(
    r"(larger|longer|more|deeper|fewer) (often )?than|at most|(is|are) the (limit|most)|too (many|much|large|long|deep)"
    r"|\bothers? .*(ask|tr|count)|than (it|they) may|wait already|run already|and may have",
)
_NO_LIMITS: Final = {
    "apiKey, credentialRef: a connection has one of them at most": "two ways to give one thing",
    "the process that reads it failed over it, or took too long": "its caller adds what helps",
    "reading this {} takes too much memory; {}": "the memory of the process, with the remedy",
    (
        "this schema takes too many steps: more than {}, or than {} s (fixed); name fewer alternatives, and fewer"
        " references to them"
    ): "two limits in one sentence",
    "{} needs input, and may have cached, output and reasoning, in USD per million tokens": "no amount",
    "is nested more than {} levels deep": "a note of a reading, and no refusal",
    "nested too deeply to be read: nest it less": "the stack of the interpreter, which has no number",
    "nested too deeply to be written: nest it less": "the stack of the interpreter, which has no number",
    "this statement is nested too deeply: define parts of it in WITH": "the stack of the interpreter",
    "it may take {} tokens in and {} out, and the next request might take more than is left of that": "an estimate",
    "took longer than a check may, in processor time": "its caller names the seconds",
    "the number {} is too large": "the range of a float",
}
"""Messages that the expression takes for refusals by a limit, and why they are none."""


@cache
def _trees() -> Mapping[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in _FILES}


def _constructions() -> Iterator[tuple[str, ast.Call]]:
    for path, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Limit":
                yield f"{path.relative_to(_ROOT)}:{node.lineno}", node


def _texts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield texts, each f-string as a whole."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _shape(text: ast.expr) -> str:
    if isinstance(text, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in text.values)
    return str(text.value) if isinstance(text, ast.Constant) else ""


def _names_a_limit(text: ast.expr, names: AbstractSet[str]) -> bool:
    formatted = [ast.unparse(each.value) for each in ast.walk(text) if isinstance(each, ast.FormattedValue)]
    return any("limit" in each.lower() or names & set(re.findall(r"\w+", each)) for each in formatted)


def _refusals() -> Iterator[tuple[str, str]]:
    """Yield the places that raise an exception whose text mentions a limit and formats none."""
    names = {name for tree in _trees().values() for name in _names_of_limits(tree)}
    for path, tree in _trees().items():
        raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
        for text in (each for exception in raised for each in _texts(exception)):
            shape = _shape(text)
            if _OF_A_LIMIT.search(shape) and shape not in _NO_LIMITS and not _names_a_limit(text, names):
                yield f"{path.relative_to(_ROOT)}:{text.lineno}", shape


def _names_of_limits(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            is_limit = ast.unparse(node.value.func) == "Limit"
            yield from [ast.unparse(node.target)] if is_limit else []


def test_every_limit_names_a_setting_that_exists_and_a_remedy() -> None:
    """A limit is fixed or names a field of the settings, and has a remedy."""
    constructions = list(_constructions())
    assert len(constructions) > 50
    for place, call in constructions:
        named = {each.arg: each.value for each in call.keywords}
        setting, remedy = named.get("setting"), named["remedy"]
        if isinstance(setting, ast.Constant):
            assert setting.value in Settings.model_fields, place
        if isinstance(remedy, ast.Constant):
            assert re.fullmatch(r"[a-z].*[^.!]", str(remedy.value)), place


def test_no_refusal_speaks_of_a_limit_without_naming_it() -> None:
    """A text of an exception that says that something is too much formats a `Limit`."""
    assert [f"{place}: {shape}" for place, shape in _refusals()] == []


@pytest.mark.parametrize(
    "limit, text",
    [
        (
            Limit(value=5, unit="bytes", setting="a_setting", remedy="send less"),
            "5 bytes (setting a_setting): send less",
        ),
        (Limit(value=64 << 20, unit="bytes", remedy="send less"), "64 MiB (fixed): send less"),
        (Limit(value=0.5, unit="s", remedy="be quick"), "0.5 s (fixed): be quick"),
        (Limit(value=1000, unit="rules", remedy="delete some"), "1,000 rules (fixed): delete some"),
    ],
)
def test_limit_as_text(limit: Limit, text: str) -> None:
    """The text of a limit has its unit, its setting, and the remedy."""
    assert str(limit) == text


def test_reasons_of_cut_connections_name_the_limit_of_the_listener() -> None:
    """Each reason for a cut connection has the value and the setting of its listener's limit."""
    closed = ClosedConnections()
    limits = ConnectionLimits(total=17, per_address=5, first_byte_s=1.5, header_s=2.5, header_bytes=5000, idle_s=3.5)
    closed.of("grpc", limits)
    texts = {reason: closed.why("grpc", reason) for reason in Reason}
    fields = {
        Reason.TOTAL_LIMIT: "17 connections (setting max_connections)",
        Reason.ADDRESS_LIMIT: "5 connections (setting max_connections_per_address)",
        Reason.FIRST_BYTE_TIMEOUT: "1.5 s (setting first_byte_seconds)",
        Reason.HEADER_TIMEOUT: "2.5 s (setting header_seconds)",
        Reason.HEADER_TOO_LARGE: "5,000 bytes (setting max_header_bytes)",
        Reason.BODY_TIMEOUT: "3.5 s (setting idle_seconds)",
        Reason.UNREAD_ANSWER: "3.5 s (setting idle_seconds)",
        Reason.PIPELINED: "16 requests (fixed)",
        Reason.UNREAD_BODY: "64 MiB (fixed)",
        Reason.SMALL_PARTS: "64 bytes on average (fixed)",
        Reason.WASTED_CALLS: "100 calls in a second (fixed)",
    }
    assert {reason: text for reason, text in fields.items() if text not in texts[reason]} == {}
