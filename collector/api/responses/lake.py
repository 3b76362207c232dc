"""What jobs over the lake have to know, and results of judges, on the wire."""

from typing import Annotated

from collector.api.responses.base import JsonObject
from collector.api.responses.wire import WireDocument, doc


class LakeDocument(WireDocument):
    """The lake of a server, and what is in it alone."""

    uri: str
    directory_id: str
    boundaries: Annotated[list[tuple[str, str, int, int]], doc("Name, day, first commit and first span that stay.")]
    left_out: Annotated[
        list[tuple[str, str, int]], doc("Traces, by tenant and id, whose rows up to a number are not to be read.")
    ]
    edition: Annotated[str, doc("Of the conventions.")]
    editions: Annotated[list[int], doc("The numbers of that edition in spans.")]
    attribute_keys: JsonObject
    model_prices: JsonObject | None


class LakeRuleDocument(WireDocument):
    """A rule as jobs over the lake use it."""

    rule_id: str
    tenant: str
    revision: int
    document: JsonObject


class CaseResultDocument(WireDocument):
    """The result of a judge for a test case."""

    name: str
    outcome: str
    score: float | None
    passed: bool | None
    threshold: float | None
    reason: str | None
    error_kind: str | None
    fingerprint: str | None
    metadata: Annotated[str | None, doc("JSON.")]
    judge_model: str | None
    judge_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
