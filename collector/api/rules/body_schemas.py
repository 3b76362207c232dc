"""Schemas in the OpenAPI document for bodies that are texts with a grammar of their own: rules, and connections.

They list the keys with types and bounds. A document that satisfies them may still be refused: the evaluator may reject
its configuration, or the address may not be allowed.
"""

from collections.abc import Iterable
from typing import Any, Final, get_args

from collector.api.documents.rule_documents import READ_ONLY
from collector.connection_text import ConnectionText
from collector.live.judges.connections import READ_ONLY as READ_ONLY_OF_CONNECTIONS
from rules.monitoring import MOST_SCORES, NUMBERS, WHOLE, AlertSeverity, range_of
from rules.rule import PRIOR_OUTCOMES
from rules.rule_text import JURIES, MAX_NAME, MOST_SETTLE_S

Schema = dict[str, Any]

_MAX_CRITERIA: Final = 20_000
_MAX_SCORE: Final = 1e6
_MAX_A_DAY: Final = 10**12

_FLAG: Final[Schema] = {"type": ["boolean", "null"]}
_MAPPING: Final[Schema] = {"type": ["object", "null"]}


def _text(most: int = MAX_NAME, *kinds: str) -> Schema:
    return {"type": ["string", *kinds], "minLength": 1, "maxLength": most, "pattern": r"\S"}


def _number(least: float, most: float, kind: str = "number") -> Schema:
    return {"type": [kind, "null"], "minimum": least, "maximum": most}


def _choice(*choices: str) -> Schema:
    return {"enum": [*choices, None]}


def _object(properties: Schema, *required: str, kinds: Iterable[str] = ()) -> Schema:
    return {
        "type": ["object", *kinds],
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_BUDGET: Final = {
    "callsPerDay": _number(0, _MAX_A_DAY, "integer"),
    "tokensPerDay": _number(0, _MAX_A_DAY, "integer"),
    "usdPerDay": _number(0, _MAX_A_DAY),
    "allowUnpriced": _FLAG,
}
_AFTER: Final = {
    "rule": _text(),
    "passed": _FLAG,
    "below": _number(-_MAX_SCORE, _MAX_SCORE),
    "atLeast": _number(-_MAX_SCORE, _MAX_SCORE),
    "outcome": _choice(*PRIOR_OUTCOMES),
}
_MONITOR: Final = {
    **{key: _number(*range_of(key), "integer" if key in WHOLE else "number") for key in NUMBERS},
    "off": {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["release", "drift"]}, {"type": "null"}]},
    "of": _choice("passed", "score"),
    "lowerIsBetter": _FLAG,
    "severity": _choice(*get_args(AlertSeverity)),
    "scores": {"type": ["array", "null"], "items": _text(), "maxItems": MOST_SCORES, "uniqueItems": True},
}

RULE: Final[Schema] = _object(
    {
        "name": _text(),
        "enabled": _FLAG,
        "project": _text(MAX_NAME, "null"),
        "target": _choice("SPAN", "TRACE", "SESSION"),
        "conditions": {
            "type": ["array", "object", "null"],
            "items": {"type": "object"},
            "description": "Conditions `{field, op, value}`, `{all: […]}` and `{any: […]}`.",
        },
        "evaluator": _text(MAX_NAME, "null"),
        "config": _MAPPING,
        "connectionId": _text(MAX_NAME, "null"),
        "jury": {
            "type": ["array", "null"],
            "items": _text(),
            "minItems": 2,
            "maxItems": max(JURIES),
            "uniqueItems": True,
        },
        "threshold": _number(-_MAX_SCORE, _MAX_SCORE),
        "sampleRate": _number(0, 1),
        "compareBy": _text(MAX_NAME, "null"),
        "budget": _object(_BUDGET, kinds=("null",)),
        "tools": {"type": ["array", "null"], "maxItems": 200, "items": {"type": "object", "required": ["name"]}},
        "expected": _MAPPING,
        "monitor": _object(_MONITOR, kinds=("null",)),
        "judge": _choice("again", "once"),
        "settle": _number(1, MOST_SETTLE_S),
        "after": _object(_AFTER, "rule", kinds=("null",)),
        "matchType": _choice("SPAN_NAME", "ATTRIBUTE"),
        "matchKey": _text(MAX_NAME, "null"),
        "matchValue": {"type": ["string", "number", "boolean", "null"]},
        "evaluatorName": _text(MAX_NAME, "null"),
        "criteria": _text(_MAX_CRITERIA, "null"),
        "minScore": _number(-_MAX_SCORE, _MAX_SCORE),
        "maxScore": _number(-_MAX_SCORE, _MAX_SCORE),
        **{key: {"description": "Returned in responses, and ignored in requests."} for key in sorted(READ_ONLY)},
    },
    "name",
)
"""A rule, as docs/rules.md has it."""


def _connection() -> Schema:
    """Return the schema of a connection (docs/connections.md) with its references inlined."""
    schema = ConnectionText.model_json_schema(by_alias=True)
    shapes = schema.pop("$defs")

    def written_out(part: Any) -> Any:  # noqa: ANN401 - any part of a schema
        if isinstance(part, dict) and "$ref" in part:
            return written_out(shapes[part["$ref"].rpartition("/")[2]])
        if isinstance(part, dict):
            return {key: written_out(value) for key, value in part.items() if key not in {"title", "default"}}
        return [written_out(each) for each in part] if isinstance(part, list) else part

    inlined: Schema = written_out(schema)
    return inlined


CONNECTION: Final = _connection()
CHANGED_CONNECTION: Final[Schema] = {
    **CONNECTION,
    "properties": {
        **CONNECTION["properties"],
        **{
            key: {"description": "Returned in responses, and ignored in requests."}
            for key in sorted(READ_ONLY_OF_CONNECTIONS)
        },
    },
}
