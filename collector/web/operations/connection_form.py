"""The form of a connection: its fields as a document of the API, and the other way round."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from collector.connection_text import ConnectionProblem, parse_connection
from collector.live.judges.connections import READ_ONLY
from collector.live.judges.llm_connection import LlmConnection
from collector.web.edit_conflict import EditConflict, overtaken, without_secret
from collector.web.visitor import Form

_TEXTS: Final = ("name", "baseUrl", "model", "protocol", "credentialRef", "reasoningEffort", "fallback")
_NUMBERS: Final[Mapping[str, type[int] | type[float]]] = {
    "price.inputUsdPerMillion": float,
    "price.outputUsdPerMillion": float,
    "limits.inFlight": int,
    "limits.timeoutSeconds": float,
    "limits.attempts": int,
    "limits.requestsPerMinute": float,
    "budget.callsPerDay": int,
    "budget.tokensPerDay": int,
    "budget.usdPerDay": float,
    "maxOutputTokens": int,
    "temperature": float,
}
_LINES: Final = ("headers", "headerRefs")
"""Fields that hold a mapping, one line `name: value` for each key."""

_TICKS: Final = ("shared", "budget.allowUnpriced")
_KEY: Final = "apiKey"
_NO_KEY: Final = "removeKey"

FIELDS: Final = (*_TEXTS, *_NUMBERS, *_LINES, *_TICKS)

LABELS: Final[Mapping[str, str]] = {
    "name": "Name",
    "baseUrl": "URL",
    "model": "Model",
    "protocol": "Protocol",
    "apiKey": "API key",
    "credentialRef": "Or an environment variable with the key",
    "shared": "Shared with rules of every tenant",
    "price.inputUsdPerMillion": "USD per million input tokens",
    "price.outputUsdPerMillion": "USD per million output tokens",
    "budget.callsPerDay": "Calls per day",
    "budget.tokensPerDay": "Tokens per day",
    "budget.usdPerDay": "USD per day",
    "budget.allowUnpriced": "Allow calls without a known price despite the USD limit",
    "limits.inFlight": "Concurrent requests",
    "limits.timeoutSeconds": "Timeout in seconds",
    "limits.attempts": "Attempts",
    "limits.requestsPerMinute": "Requests per minute",
    "maxOutputTokens": "Max output tokens",
    "temperature": "Temperature",
    "reasoningEffort": "Reasoning effort",
    "headers": "Extra headers",
    "headerRefs": "Extra headers from environment variables",
    "fallback": "Fallback connection while this one is unavailable",
}
"""Labels of the fields."""


def connection_of(form: Form, before: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a form into the document of a connection: keys without a form field keep their value.

    An empty API key is omitted, so the stored one stays.
    """
    own = {name.partition(".")[0] for name in FIELDS} | READ_ONLY
    document = {key: value for key, value in before.items() if key not in own}
    for name in _TEXTS:
        _put(document, name, form.text(name).strip())
    for name, kind in _NUMBERS.items():
        _put(document, name, _number(form.text(name).strip(), kind))
    for name in _LINES:
        _put(document, name, _mapping(form.text(name)))
    for name in _TICKS:
        _put(document, name, form.checked(name) or "")
    _put(document, _KEY, form.text(_KEY).strip())
    if _KEY not in document and form.checked(_NO_KEY):
        document[_KEY] = None
    return document


def values_of(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of the form fields for a connection."""
    lines = {name: "\n".join(f"{key}: {value}" for key, value in document.get(name, {}).items()) for name in _LINES}
    flat = dict(_flat(document)) | lines
    return {name: flat.get(name, "") for name in (*FIELDS, _NO_KEY)}


def values_sent(form: Form) -> dict[str, object]:
    """Return the values of the form fields as sent, without the key."""
    return {name: form.text(name) for name in (*FIELDS, _NO_KEY)}


def overtaken_by(now: LlmConnection, form: Form, document: Mapping[str, Any]) -> EditConflict:
    """Return the differences between a connection that was changed meanwhile and the `document` of a form."""
    typed_secret, stored_secret = without_secret(form, _KEY, _NO_KEY, is_kept=now.row.secret is not None)
    typed_fields = parse_connection(document).model_dump(mode="json", by_alias=True, exclude={"api_key"})
    stored_fields = now.text.model_dump(mode="json", by_alias=True, exclude={"api_key"})
    return overtaken("connection", typed_fields | dict(typed_secret), stored_fields | dict(stored_secret), LABELS)


def by_field(problems: Sequence[ConnectionProblem]) -> tuple[dict[str, str], list[str]]:
    """Sort problems by field; return those of no field as a list."""
    known = {*FIELDS, _KEY}
    fields: dict[str, str] = {}
    others: list[str] = []
    for problem in problems:
        named = [key for key in problem.key.split(", ") if key in known]
        for key in named:
            fields[key] = f"{fields[key]}; {problem.message}" if key in fields else problem.message
        if not named:
            others.append(str(problem))
    return fields, others


def _put(document: dict[str, Any], name: str, value: object) -> None:
    """Set a key, or with `outer.inner` a nested key, unless the value is an empty text."""
    if value == "":
        return
    outer, _, inner = name.partition(".")
    if inner:
        document.setdefault(outer, {})[inner] = value
    else:
        document[outer] = value


def _mapping(text: str) -> object:
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs} or ""


def _number(text: str, kind: type[int] | type[float]) -> object:
    try:
        return kind(text)
    except ValueError:
        return text


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(value))
        elif value is not None:
            yield key, value
