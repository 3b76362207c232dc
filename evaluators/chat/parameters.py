"""Parameters of requests that a model may refuse, and which of them an error names."""

import re
from collections.abc import Mapping
from typing import Any, Final

from evaluators.chat.error_body import ErrorFacts

TEMPERATURE: Final = "temperature"
EFFORT: Final = "reasoningEffort"
SCHEMA: Final = "structuredOutput"
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")

_NAMES: Final = {
    TEMPERATURE: re.compile(r"\btemperature\b"),
    EFFORT: re.compile(
        r"reasoning_?effort|\breasoning\.|\beffort\b|output_config(?!\.format)|[\"'`](?:reasoning|thinking)[\"'`]"
    ),
    SCHEMA: re.compile(
        r"response_?format|json_?schema|\btext\.format|output_config(?!\.effort)|structured.?output|[\"'`]text[\"'`]"
    ),
    **{name: re.compile(rf"\b{name}\b") for name in _LIMITS},
}
_EXACTLY: Final = {EFFORT: ("reasoning", "thinking"), SCHEMA: ("text",)}
"""Words that name a parameter if they are the whole `param` of an error."""

_OF_VALUES: Final = re.compile(
    r"too (?:large|big|high|long|small|low|many)|exceed|context.?(?:length|window)|maximum|minimum|at (?:most|least)"
    r"|(?:less|greater|more|larger|smaller|lower|higher) than|between|range|above|below|one of|supported values|out of"
    r"|must be (?:an? |in |within )"
    r"|should be (?:an? |in |within )|[≤≥]|[<>]=?\s*-?\d++(?!>)"
)
"""Complaints about the value of a parameter: leaving the parameter out would hide the mistake."""


_OTHER_PART: Final = re.compile(
    r"(?:body\.)?(?:messages|model|input|instructions|system|store|temperature|reasoning\w*|max_\w*tokens)\b"
)


def suspected_parameters(facts: ErrorFacts, request: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters of a request that an error names as unsupported, else `SCHEMA` if it was sent.

    The error's `param` or `loc` has precedence over its message, which may recommend other parameters. An error that
    names none of these, or complains about a value, may be about the schema of the reply. It is not if its `param` or
    `loc` names another field of the request.
    """
    sent = _sent_parameters(request)
    message = "\n".join((*facts.messages, *facts.codes)).lower()
    names = [name.lower() for name in facts.parameters]
    refused = {
        name
        for name in sent
        for text in names or [message]
        if _NAMES[name].search(text) or text.rpartition(".")[2] in _EXACTLY.get(name, ())
    }
    if refused and not _OF_VALUES.search(message):
        return frozenset(refused)
    is_other = any(_OTHER_PART.match(name) for name in names)
    return frozenset({SCHEMA} if SCHEMA in sent and not is_other else ())


def _sent_parameters(request: Mapping[str, Any]) -> list[str]:
    """Return the names of optional parameters in the body of a request."""
    output = request.get("output_config", {})
    sent = {
        TEMPERATURE: "temperature" in request,
        EFFORT: "reasoning_effort" in request or "reasoning" in request or "effort" in output,
        SCHEMA: "response_format" in request or "text" in request or "format" in output,
        **{name: name in request for name in _LIMITS},
    }
    return [name for name, is_sent in sent.items() if is_sent]
