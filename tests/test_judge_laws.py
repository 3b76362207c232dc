"""Whatever a case holds and a judge answers, a judge's evaluator ends in a documented outcome."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.case import parse_case
from evaluators.code_judge import CodeJudge, payload_of
from evaluators.errors import BadCase
from evaluators.judge_interface import PromptMessage, Reply
from evaluators.model import text_of
from evaluators.registry import KINDS
from storage.records import JsonValue
from tests.evaluating import USAGE, evaluate

NEEDED: dict[str, dict[str, Any]] = {
    "llm_judge": {"criteria": "c", "evaluationParams": ["ACTUAL_OUTPUT"]},
    "conversation_trajectory": {"criteria": ["safety", "clarity"], "includeToolCalls": True},
    "pairwise": {"compare": "TRAJECTORIES"},
    "precision": {"retrievedKey": "retrieved", "expectedKey": "relevant", "matchingStrategy": {"type": "llmBased"}},
    "recall": {"retrievedKey": "retrieved", "expectedKey": "relevant", "matchingStrategy": {"type": "llmBased"}},
}
ASKING = [
    name
    for name, kind in KINDS.items()
    if name in NEEDED or kind.judge(kind.configuration.model_construct()) != "never"
]
KEYS = ["input", "output", "toolCalls", "tools", "tasks", "context", "retrievalContext", "trajectory", "reasoningSteps"]

scalars = (
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats(-2, 2, width=16) | st.sampled_from(["", "a", "\ud800"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "role", "content", "arguments", "messages"]), inner, max_size=3)
    ),
)
calls = st.lists(st.fixed_dictionaries({"name": st.just("t"), "arguments": values}), max_size=2)
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=3)}), max_size=3
)
parts = st.dictionaries(st.sampled_from(KEYS), values | calls | messages)
cases = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("inputs", "actualOutputs", "expectedOutputs", "metadata"), parts)
)
rows = st.lists(
    st.fixed_dictionaries(
        {"index": st.integers(0, 3) | scalars},
        optional={
            "verdict": st.sampled_from(["yes", "NO", "idk", "perhaps"]) | scalars,
            "completed": scalars,
            "grounded": scalars,
            "reason": scalars,
        },
    ),
    max_size=4,
)


class FreeJudge:
    """A judge that answers each field of the schemas with any value."""

    model = "free"
    parameters: Mapping[str, JsonValue] = {}

    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:
        """Return any values for the fields of the schemas."""
        assert [message.role for message in messages] == ["system", "user"]
        kinds = {"array": rows | st.lists(st.text(max_size=2), max_size=3), "boolean": scalars, "number": scalars}
        fields: dict[str, Any] = {
            name: self.data.draw(kinds.get(str(schema["type"]), scalars) if isinstance(schema, dict) else values)
            for name, schema in schemas.items()
        }
        return Reply(fields=fields, usage=USAGE)


@settings(max_examples=300)
@given(cases, st.sampled_from(ASKING), st.data())
def test_any_answer_has_an_outcome(case: dict[str, Any], name: str, data: st.DataObject) -> None:
    """A case or an answer that cannot be used is a failure of that kind, and scores stay within 0 and 1."""
    document = evaluate(name, NEEDED.get(name, {}), case, FreeJudge(data)).to_document()
    if document["outcome"] == "failure":
        assert document["failure"]["kind"] in {"bad_case", "bad_reply"}, document["failure"]
        assert document["failure"]["message"]
    else:
        assert 0 <= document["score"] <= 1
        assert math.isfinite(document["score"])
        assert document["reason"]
        assert text_of(document)


@settings(max_examples=300)
@given(cases)
def test_any_case_reaches_a_program(case: dict[str, Any]) -> None:
    """What a program reads can be written as JSON for any case that is one, or the case is refused by key."""
    try:
        payload = payload_of(parse_case(case), CodeJudge(script=("judge",)))
    except BadCase:
        return
    assert text_of(payload)
