"""Request bodies that are rules: JSON, or YAML as in a file."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from fastapi import Request
from starlette.exceptions import HTTPException

from collector.api.documents.rule_documents import READ_ONLY
from collector.api.rules.body_schemas import RULE
from collector.evaluation.rule_check import read_rule
from rules.errors import BadRule, Problem
from rules.rule_text import BadRuleText, RuleText, parse_json, parse_rule
from rules.tree import MAX_CHARACTERS
from storage.limit import Limit

_LIMIT: Final = Limit(value=4 * MAX_CHARACTERS, unit="bytes", remedy="make several rules of it, or shorten its texts")

_JSON: Final = "application/json"
# No media type that a page of another site can send without a CORS preflight request.
_PARSERS: Final[Mapping[str, Callable[[str], RuleText]]] = {
    _JSON: functools.partial(parse_json, passing_over=READ_ONLY),
    "application/yaml": parse_rule,
    "application/x-yaml": parse_rule,
    "text/yaml": parse_rule,
}


BODY: Final[dict[str, object]] = {
    "requestBody": {
        "required": True,
        "description": "A rule, as docs/rules.md has it.",
        "content": {
            _JSON: {"schema": RULE},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}
"""The body in the OpenAPI document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBody:
    """A rule from a request: parsed, and its text."""

    parsed: RuleText
    text: str


async def rule_body(request: Request) -> RuleBody:
    """Read the rule in a request.

    Raises:
        HTTPException: the body is neither JSON nor YAML, or too large.
        BadRule: the body is not a valid rule.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _PARSERS:
        message = f"send the rule as {' or '.join(list(_PARSERS)[:2])}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _LIMIT.value:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a rule has at most {_LIMIT}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRule([Problem(line=1, key="", message=f"is not UTF-8: {error.reason}")]) from None
    try:
        parsed = _PARSERS[kind](text)
    except BadRuleText as error:
        read_rule(functools.partial(_raise, error))
        raise
    return RuleBody(parsed=parsed, text=_without_read_only(text) if kind == _JSON else text)


def _raise(error: BadRuleText) -> RuleText:
    raise error


def _without_read_only(text: str) -> str:
    # Responses add these fields to a rule; it may be sent back with them.
    document = json.loads(text)
    if not document.keys() & READ_ONLY:
        return text
    return json.dumps({key: value for key, value in document.items() if key not in READ_ONLY}, ensure_ascii=False)
