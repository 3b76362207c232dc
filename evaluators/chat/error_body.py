"""Errors of endpoints, classified by their members and words, in any format."""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_VALUES: Final = 500  # a guess: errors have less than 50
_MOST_CHARACTERS: Final = 4_000  # of a text that are searched; messages show one line

_CODES: Final = frozenset(
    (
        "errcode",
        *("code", "type", "status", "reason", "errorcode", "statuscode", "httpstatus", "errortype", "action"),
        *("blockreason", "error"),
    )
)
_MESSAGES: Final = frozenset(
    (
        *("message", "msg", "detail", "details", "errormsg", "errormessage", "statusmsg", "errordescription", "error"),
        *("errors", "raw", "description", "title", "faultstring", "errmsg", "value", ""),
    )
)
_PARAMETERS: Final = frozenset(("param", "parameter", "loc", "field", "params", "invalidparams", "unsupportedparams"))
_NAMED_BY_MEMBERS: Final = frozenset(("temperature", "maxtokens", "maxcompletiontokens", "maxoutputtokens"))
"""Parameters that frameworks report as a key of the error, with the complaint as its value."""

_FILTER_MARKS: Final = frozenset(("blockreason", "flaggedinput", "contentfilter", "inputsensitive", "outputsensitive"))
"""Members whose presence means that a filter acted."""

_ECHOES: Final = frozenset(("input", "messages", "prompt", "body", "request", "ctx", "flaggedinput"))
"""Members that echo the request, whose words are not about the error."""

_FILTER_CODES = re.compile(
    r"content ?filter|content ?policy|policy ?violation|data ?inspection|guardrail|moderation|prohibited ?content"
    r"|sensitive|inappropriate|safety|recitation|block ?list|\bspii\b|toxic|high ?risk|\b(?:1301|1026|1027)\b"
)
_FILTER_MESSAGES = re.compile(
    r"content.{0,12}(?:filter|polic)|usage polic|inappropriate content|high risk|sensitive (?:content|words|info)"
    r"|violated? .{0,20}guardrail|guardrail.{0,20}(?:interven|violat|block)"
    r"|blocked by .{0,40}(?:guardrail|filter|safety|polic)"
    r"|input was flagged|flagged (?:as|for|by)|prohibited.content|unsafe content|敏感|不安全|违规"
)
_NOT_SERVED = re.compile(
    r"(?:model|deployment) ?not ?(?:found|exist)|unknown ?model|invalid ?model|invalid ?api ?key|credit balance"
    r"|insufficient.{0,3}(?:quota|balance|funds|credit)"
)
_MENTIONED_STATUS = re.compile(r"(?:http|status|code)[^\d\n]{0,12}\b([45]\d\d)\b")
_RATE_CODES = re.compile(r"rate ?limit|too ?many ?requests|throttl")
_STATUSES_OF_WORDS: Final = tuple(
    (status, re.compile(words))
    for status, words in (
        (429, r"rate.?limit|slow ?down|too many|throttl|quota|resource exhausted|requests? limit"),
        (429, r"\b[qrt]p[smd]\b|concurren"),
        (429, "速率|频率|限流"),
        (401, r"api.?key|\bauth ?fail|authenticat|unauthori[sz]ed|authori[sz]ation|access token|credential"),
        (402, r"insufficient.{0,10}(?:balance|funds|credit)|credits|billing|arrear|overdue|余额|欠费"),
        (403, r"permission|forbidden|access denied"),
        (504, r"time(?:d|-)? ?out|deadline"),
        (400, r"context.?(?:length|window)"),
        (503, r"overload|loading|unavailable|capacity|try again|busy|internal|server error|upstream|gateway"),
        (404, r"not.found|does not exist"),
        (400, r"invalid|bad request|param|argument|support|not (?:allowed|permitted|available)|cannot be used"),
    )
)
_STATUSES_OF_MINIMAX: Final = {
    **dict.fromkeys(("1002", "1039", "1041"), 429),
    **dict.fromkeys(("1004", "2049"), 401),
    "1008": 402,
    "2013": 400,
}
_UNKNOWN_ERROR: Final = 502
_STATUSES: Final = range(400, 600)


@dataclass(slots=True)
class ErrorFacts:
    """The texts of an error by kind: codes as words in lower case, messages, names of parameters."""

    codes: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    is_marked: bool = False  # by a filter

    @property
    def is_filtered(self) -> bool:
        """Return True if a content filter stopped the request."""
        return (
            self.is_marked
            or self.has_filter_code
            or any(_FILTER_MESSAGES.search(text.lower()) for text in self.messages)
        )

    @property
    def has_filter_code(self) -> bool:
        """Return True if a code means that a content filter stopped the request."""
        return any(_FILTER_CODES.search(code) for code in self.codes)

    @property
    def has_rate_code(self) -> bool:
        """Return True if a code means too many requests."""
        return any(_RATE_CODES.search(code) for code in self.codes)

    @property
    def is_not_served(self) -> bool:
        """Return True if the key, the account or the model is refused, for which some endpoints return status 400."""
        return any(_NOT_SERVED.search(text.lower()) for text in (*self.codes, *self.messages))

    @property
    def number(self) -> int | None:
        """Return the first code that is an HTTP error status, or None."""
        return next((int(code) for code in self.codes if code.isdecimal() and int(code) in _STATUSES), None)

    def status(self) -> int | None:
        """Return the HTTP status that fits the error, or None."""
        if self.number is not None:
            return self.number
        if self.is_filtered:
            return 400
        mentioned = _MENTIONED_STATUS.search("\n".join(self.messages).lower())
        return int(mentioned.group(1)) if mentioned else self._meant_status()

    def _meant_status(self) -> int | None:
        return _status_of(self.codes) or _status_of(text.lower() for text in self.messages)


def _status_of(texts: Iterable[str]) -> int | None:
    joined = "\n".join(texts)
    return next((status for status, words in _STATUSES_OF_WORDS if words.search(joined)), None)


def facts_of(document: object) -> ErrorFacts:
    """Read the texts of an error out of a document of any shape."""
    facts, left = ErrorFacts(), deque([("", document)])
    for _ in range(_MOST_VALUES):
        if not left:
            break
        key, value = left.popleft()
        if isinstance(value, dict):
            named = [(_bare(name), each) for name, each in value.items()]
            facts.is_marked |= any(each and name in _FILTER_MARKS for name, each in named)
            left.extend((name, each) for name, each in named if name not in _ECHOES)
            by_members = (name for name, each in value.items() if _bare(name) in _NAMED_BY_MEMBERS and _is_text(each))
            facts.parameters.extend(by_members)
        elif isinstance(value, list) and key in _PARAMETERS:
            facts.parameters.append(".".join(map(str, value[:20])))
        elif isinstance(value, list):
            left.extend((key, each) for each in value[:_MOST_VALUES])
        elif isinstance(value, str):
            _collect(facts, left, key, value[:_MOST_CHARACTERS])
        elif isinstance(value, int | float) and not isinstance(value, bool) and key in _CODES:
            facts.codes.append(str(value).removesuffix(".0"))
    return facts


def _collect(facts: ErrorFacts, left: "deque[tuple[str, object]]", key: str, text: str) -> None:
    if text.strip().lower() in {"", "none", "null"}:
        return
    nested = _parsed(text)
    if nested is not None:
        left.append((key, nested))
        return
    if key in _CODES:
        facts.codes.append(_words(text))
    if key in _MESSAGES:
        facts.messages.append(text)
    if key in _PARAMETERS:
        facts.parameters.append(text)


def _is_text(value: object) -> bool:
    return isinstance(value, str | list)


def _parsed(text: str) -> object:
    """Return the JSON that a gateway wrapped in a text, or None."""
    if text[:1] not in "{[":
        return None
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed


def _bare(name: object) -> str:
    return str(name)[:100].lower().replace("_", "").replace("-", "")


def _words(code: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.\-\s]+", " ", code).lower()


@dataclass(frozen=True, slots=True)
class FoundError:
    """An error in a response with status 200."""

    status: int
    document: object


def error_in(document: object, member: str) -> FoundError | None:
    """Return the error in a response with status 200, or None. `member` is the key of the answer in the protocol.

    Gateways send status 200 before the model has replied, so a later error is in the body.
    """
    for each in document if isinstance(document, list) else [document]:
        error = _error_of(each, member) if isinstance(each, dict) else None
        if error is not None:
            return error
    return None


def _error_of(document: Mapping[str, Any], member: str) -> FoundError | None:
    # Zhipu adds content_filter to successful answers too, with a severity.
    about = {name: value for name, value in document.items() if name not in (member, *_NO_ERRORS)}
    answer = document.get(member)
    choice = answer[0] if member == "choices" and isinstance(answer, list) and answer else None
    if isinstance(choice, dict):
        message = choice.get("message")
        inner = choice.get("error") or (message.get("error") if isinstance(message, dict) else None)
        about |= {"error": inner} if _says_something(inner) else {}
    facts = facts_of(about)
    base = document.get("base_resp")
    number = str(base.get("status_code", 0)) if isinstance(base, dict) else "0"
    says = (
        any(_says_something(about.get(name)) for name in ("error", "Error", "errors"))
        or "error" in (about.get("type"), about.get("object"))
        or any(about.get(name) is False for name in ("success", "ok"))
        or facts_of({name: about[name] for name in _TOP_CODES if name in about}).number is not None
        or number != "0"
        or True in (about.get("input_sensitive"), about.get("output_sensitive"))
    )
    has_answer = isinstance(answer, list) and bool(answer or member != "choices")
    if not says and (has_answer or not (facts.messages or facts.number or facts.is_marked)):
        return None
    status = _STATUSES_OF_MINIMAX.get(number) or facts.status() or _UNKNOWN_ERROR
    return FoundError(status, about)


_NO_ERRORS: Final = ("content_filter", "tools", "text", "metadata", "usage", "reasoning")
"""Members of responses whose words are not about an error."""

_TOP_CODES: Final = ("code", "status_code", "statusCode")


def _says_something(error: object) -> bool:
    values = error.values() if isinstance(error, dict) else error if isinstance(error, list) else [error]
    return any(each for each in values if each not in ("None", "null", "none"))


def error_in_text(body: bytes, member: str) -> FoundError | None:
    """Return the error in a response with status 200 that is not JSON, or None."""
    text = body[: 16 * _MOST_CHARACTERS].decode("utf-8", "replace").strip().lstrip("\ufeff")
    lines = (_parsed(line.removeprefix("data:").strip()) for line in text.split("\n"))  # events, or a document a line
    errors = (error_in(line, member) for line in lines if line is not None)
    first = next((error for error in errors if error is not None), None)
    if first is not None or text[:1] in ("{", "["):
        return first
    if not text:
        return FoundError(_UNKNOWN_ERROR, {"message": "the body is empty"})
    is_no_answer = text.startswith(("<", "event: error"))
    if text.startswith(_EVENTS) and not is_no_answer:
        return None
    words = re.sub(r"<(script|style)\b.*?</\1>|<[^<>]*>", " ", text[:_MOST_CHARACTERS], flags=re.DOTALL | re.IGNORECASE)
    message = {"message": " ".join(words.split())}
    status = facts_of(message).status() or (_UNKNOWN_ERROR if is_no_answer else None)
    return None if status is None else FoundError(status, message)


_EVENTS: Final = ("data:", "event:", "id:", "retry:", ":")
