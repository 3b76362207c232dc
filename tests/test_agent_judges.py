"""Judges of agents: tasks, arguments, plans, and how tools are named and described."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evaluators.judges.tool_quality import DESCRIPTION_CHECKS, NAME_CHECKS
from evaluators.outcome import Verdict
from evaluators.registry import KINDS
from tests.judging import failure_of, judged, verdict_of, without_judge
from tests.model_server import ModelRequest, Says, Step

TRIP: dict[str, Any] = {
    "inputs": {"input": "Find flights from NYC to Paris and book a hotel for 5 nights"},
    "actualOutputs": {
        "output": "Found flights and booked your hotel in Paris.",
        "toolCalls": [
            {"name": "search_flights", "arguments": {"origin": "JFK"}, "result": '{"flight": "AF7"}'},
            {"name": "book_hotel", "arguments": {"city": "Paris", "nights": 5}},
        ],
        "reasoningSteps": ["Search flights", "Book a hotel"],
    },
    "metadata": {"tasks": ["Search for flights", "Book a hotel"], "constraints": "Budget under $500"},
}


def tasks(completed: Sequence[object]) -> dict[str, Any]:
    """Return an answer about each task, in order."""
    rows = enumerate(completed, start=1)
    return {"tasks": [{"index": index, "completed": done, "reason": f"it is {done}"} for index, done in rows]}


def calls(grounded: Sequence[object]) -> dict[str, Any]:
    """Return an answer about each call, in order."""
    rows = enumerate(grounded, start=1)
    return {"calls": [{"index": index, "grounded": is_so, "reason": f"it is {is_so}"} for index, is_so in rows]}


def with_outputs(**outputs: object) -> dict[str, Any]:
    """Return the trip with other outputs."""
    return TRIP | {"actualOutputs": TRIP["actualOutputs"] | outputs}


# task_completion


@pytest.mark.parametrize("done,score", [((True, True), 1.0), ((True, False), 0.5), ((False, False), 0.0)])
def test_completion_is_the_share_of_the_given_tasks(*, done: tuple[bool, ...], score: float) -> None:
    """The documented example, with a threshold of one half."""
    verdict = verdict_of("task_completion", {}, TRIP, tasks(done))
    assert (verdict.name, verdict.score, verdict.threshold, verdict.success) == (
        "Task Completion",
        score,
        0.5,
        score >= 0.5,
    )
    assert [row["completed"] for row in verdict.metadata["tasks"]] == list(done)
    assert verdict.reason.startswith(f"{sum(done)} of 2 tasks are completed.")


def test_completion_says_which_task_is_not() -> None:
    """The reason quotes the open tasks with the judge's words."""
    verdict = verdict_of("task_completion", {}, TRIP, tasks([True, False]))
    assert verdict.reason.endswith("Not completed: 'Book a hotel' (it is False).")


def test_completion_shows_the_dialog_and_the_constraints() -> None:
    """The judge sees the input, the answer, the tasks and the constraints, or a note that there is no answer."""
    _, (request,) = judged("task_completion", {}, TRIP, tasks([True, True]))
    for text in ("from NYC to Paris", "booked your hotel", "Search for flights", "Budget under $500"):
        assert text in request.user
    _, (request,) = judged("task_completion", {}, with_outputs(output=None), tasks([True, True]))
    assert "the input is all there is" in request.user


def test_no_tasks_are_all_completed() -> None:
    """An empty list passes without a question, and says so; a missing one is a failure."""
    outcome, requests = judged("task_completion", {}, TRIP | {"metadata": {"tasks": []}}, [])
    assert (outcome.to_document()["score"], requests) == (1.0, [])
    assert outcome.to_document()["reason"] == "There are no tasks to complete."
    assert failure_of("task_completion", {}, TRIP | {"metadata": {}}, []).message == "metadata.tasks is missing"
    wrong = failure_of("task_completion", {}, TRIP | {"metadata": {"tasks": "book"}}, [])
    assert wrong.message == "metadata.tasks: must be a list"


@pytest.mark.parametrize("answer", [tasks([True, "perhaps"]), tasks([True]), {"done": []}, "nonsense"])
def test_an_unusable_answer_about_tasks_is_a_failure(answer: object) -> None:
    """No score of zero comes of it: the judge broke, not the agent."""
    assert failure_of("task_completion", {}, TRIP, answer).kind == "bad_reply"


# tool_argument_hallucination


def test_arguments_are_grounded_call_by_call() -> None:
    """The share of grounded calls, each matched by its number, with earlier results shown as sources."""
    rows = {"calls": list(reversed(calls([True, False])["calls"]))}
    outcome, (request,) = judged("tool_argument_hallucination", {}, TRIP, rows)
    assert isinstance(outcome, Verdict)
    assert (outcome.score, outcome.threshold, outcome.success) == (0.5, 0.8, False)
    assert [row["tool"] for row in outcome.metadata["calls"] if not row["grounded"]] == ["book_hotel"]
    assert '"result": "{\\"flight\\": \\"AF7\\"}"' in request.user
    assert request.user.count('"result"') == 1


def test_no_calls_make_nothing_up() -> None:
    """Without calls the score is 1 without a question."""
    outcome, requests = judged("tool_argument_hallucination", {}, with_outputs(toolCalls=[]), [])
    assert (outcome.to_document()["score"], requests) == (1.0, [])
    assert failure_of("tool_argument_hallucination", {}, TRIP | {"actualOutputs": {}}, []).kind == "bad_case"


def test_a_call_that_was_left_out_is_named() -> None:
    """The judge is asked again for it, and then it is a failure."""
    failure = failure_of("tool_argument_hallucination", {}, TRIP, [calls([True]), {"calls": []}])
    assert failure.message == "the judge left out 1 of 2 calls, also on the second request: 2"


# plans


@pytest.mark.parametrize(
    "name,field,rule",
    [("plan_quality", "quality", "non_empty_reasoning"), ("plan_adherence", "plan_followed", "plan_present")],
)
def test_a_plan_is_checked_by_rule_and_by_judge(name: str, field: str, rule: str) -> None:
    """The score is the share of checks that passed, of those that ran."""
    good = verdict_of(name, {}, TRIP, {field: True, "reason": "fine"})
    assert (good.score, good.threshold, good.metadata["checks"]) == (1.0, 0.5, {rule: True, field: True})
    bad = verdict_of(name, {}, TRIP, {field: False, "reason": "it wanders"})
    assert (bad.score, bad.success) == (0.5, True)
    assert bad.reason == f"1 of 2 checks passed; failed: {field}. it wanders"
    assert verdict_of(name, {"strictMode": True}, TRIP, {field: False, "reason": "r"}).success is False
    alone = without_judge(name, {}, TRIP).to_document()
    assert (alone["score"], alone["metadata"]["checks"]) == (1.0, {rule: True, field: "skipped"})
    assert failure_of(name, {}, TRIP, {"reason": "no decision"}).kind == "bad_reply"


def test_an_empty_plan_passes_for_quality_without_a_question() -> None:
    """There is nothing to judge in a plan without steps, but the case must have the key of the steps."""
    outcome, requests = judged("plan_quality", {}, with_outputs(reasoningSteps=[]), [])
    assert (outcome.to_document()["score"], requests) == (1.0, [])
    missing = {"inputs": {"input": "q"}, "actualOutputs": {}}
    assert failure_of("plan_quality", {}, missing, []).message == "actualOutputs.reasoningSteps is missing"
    assert failure_of("plan_quality", {}, with_outputs(reasoningSteps="x"), []).kind == "bad_case"


def test_a_missing_plan_was_not_present() -> None:
    """Adherence counts a missing plan against the agent; without calls there was nothing to adhere to."""
    verdict = verdict_of("plan_adherence", {}, with_outputs(reasoningSteps=None), {"plan_followed": False})
    assert verdict.metadata["checks"] == {"plan_present": False, "plan_followed": False}
    assert verdict.score == 0.0
    outcome, requests = judged("plan_adherence", {}, with_outputs(toolCalls=[]), [])
    assert (outcome.to_document()["score"], requests) == (1.0, [])
    other = TRIP | {"actualOutputs": {"plan": ["a"], "toolCalls": [{"name": "t"}]}}
    configuration = {"reasoningStepsKey": "plan"}
    assert verdict_of("plan_adherence", configuration, other, {"plan_followed": True}).score == 1.0


# tool_name_reliability


def tools(*definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case that offers these tools."""
    return {"metadata": {"tools": [*definitions]}}


@pytest.mark.parametrize(
    "name,failed",
    [
        ("search_flights", []),
        ("a", []),
        ("get_2_items", []),
        ("searchFlights", ["snakecase_format"]),
        ("search__flights", ["snakecase_format"]),
        ("_search", ["snakecase_format"]),
        ("search_", ["snakecase_format"]),
        ("2_search", ["snakecase_format"]),
        ("search_flights\n", ["snakecase_format"]),
        ("a_b_c_d_e_f_g", []),
        ("a_b_c_d_e_f_g_h", ["conciseness"]),
        ("summarize_with_llm", ["intent_over_implementation"]),
        ("load_from_s3_bucket", ["intent_over_implementation"]),
    ],
)
def test_names_are_checked_by_rule_without_a_judge(name: str, failed: list[str]) -> None:
    """Three rules run always; checks that need a judge are skipped and do not count."""
    document = without_judge("tool_name_reliability", {}, tools({"name": name})).to_document()
    (row,) = document["metadata"]["tools"]
    assert [check for check, passed in row["checks"].items() if passed is False] == failed
    assert [check for check, passed in row["checks"].items() if passed == "skipped"] == ["clarity", "name_order"]
    assert document["score"] == pytest.approx(1 - len(failed) / 3)


def test_names_are_checked_by_the_judge_too() -> None:
    """Five checks with a judge; what rule and judge both check must pass twice."""

    def script(request: ModelRequest) -> Step:
        is_clear = "search_flights" in request.user
        passed = {"clarity": is_clear, "name_order": True, "intent_over_implementation": is_clear}
        return Says({"reason": "so so", **passed})

    case = tools({"name": "search_flights"}, {"name": "do_it"}, {"name": "ask_with_llm"})
    verdict = verdict_of("tool_name_reliability", {}, case, script)
    assert [row["score"] for row in verdict.metadata["tools"]] == [1.0, 0.6, 0.6]
    assert verdict.score == pytest.approx((1.0 + 0.6 + 0.6) / 3)
    assert "do_it fails intent_over_implementation, clarity" in verdict.reason
    assert verdict.success is False


def test_a_check_that_the_judge_left_out_is_a_failure() -> None:
    """A missing decision is not a failed check."""
    answer = {"reason": "r", "clarity": True, "name_order": True}
    failure = failure_of("tool_name_reliability", {}, tools({"name": "a"}), answer)
    assert "intent_over_implementation" in failure.message


@pytest.mark.parametrize("name", ["tool_name_reliability", "tool_description_reliability"])
def test_no_tools_are_reliable(name: str) -> None:
    """An empty list passes and says so; a missing one is a failure."""
    verdict = without_judge(name, {}, tools())
    assert isinstance(verdict, Verdict)
    assert (verdict.score, verdict.reason) == (1.0, "There are no tools to check.")
    assert without_judge(name, {}, {}).to_document()["failure"]["message"] == "metadata.tools is missing"


# tool_description_reliability


def a_tool(count: int, required: int, **parameter: object) -> dict[str, Any]:
    """Build a tool with this many parameters, of which the first are required."""
    names = [f"p{number}" for number in range(count)]
    described = {"type": "string", "description": "what it is"} | parameter
    schema = {"type": "object", "properties": dict.fromkeys(names, described), "required": names[:required]}
    return {"name": "a_tool", "description": "Does it.", "inputSchema": schema}


@pytest.mark.parametrize(
    "tool,configuration,failed",
    [
        (a_tool(5, 2), {}, []),
        (a_tool(0, 0), {}, []),
        ({"name": "bare"}, {}, []),
        ({"name": "any", "inputSchema": True}, {}, []),
        (a_tool(6, 6), {}, ["max_num_input_arguments"]),
        (a_tool(6, 6), {"maxInputArgs": 6}, []),
        (a_tool(4, 0), {}, ["max_optional_input_arguments"]),
        (a_tool(4, 0), {"maxOptionalArgs": 4}, []),
        (a_tool(1, 1, description=" "), {}, ["input_arguments_clarity"]),
        (a_tool(1, 1, type=None), {}, ["input_arguments_types"]),
        (a_tool(1, 1, type=None, anyOf=[{"type": "string"}, {"type": "null"}]), {}, []),
        (a_tool(1, 1, type=None, enum=["a", "b"]), {}, []),
    ],
)
def test_descriptions_are_checked_by_rule_without_a_judge(
    tool: Mapping[str, Any], configuration: Mapping[str, Any], failed: list[str]
) -> None:
    """Four rules run always, and pass if there are no arguments; nine checks are skipped."""
    document = without_judge("tool_description_reliability", configuration, tools(tool)).to_document()
    (row,) = document["metadata"]["tools"]
    assert [check for check, passed in row["checks"].items() if passed is False] == failed
    assert sum(passed == "skipped" for passed in row["checks"].values()) == 9
    assert document["score"] == pytest.approx(1 - len(failed) / 4)


def test_descriptions_are_checked_by_the_judge_too() -> None:
    """Thirteen checks with a judge."""
    answer = dict.fromkeys(DESCRIPTION_CHECKS, True) | {"has_examples": False, "reason": "no example"}
    verdict = verdict_of("tool_description_reliability", {}, tools(a_tool(1, 1)), answer)
    assert len(verdict.metadata["tools"][0]["checks"]) == 13
    assert verdict.score == pytest.approx(12 / 13)
    assert "a_tool fails has_examples" in verdict.reason


# prompts

PAIRS = {**TRIP, "expectedOutputs": {"output": "No flights were found."}}
CONTEXT = {**TRIP, "metadata": {"context": ["Flight AF7 goes at 10.", {"hotel": "Le Marais"}]}}
TALK = [
    {"role": "user", "content": "Book it."},
    {"role": "assistant", "content": "Done.", "toolCalls": [{"name": "book", "arguments": {"nights": 5}}]},
]
SUPPORT = {"verdicts": [{"index": 1, "verdict": "yes", "reason": "r"}]}
WHOLE = {
    "actualOutputs": {
        "output": "Booked.",
        "toolCalls": [{"name": "book", "arguments": {"nights": 5}, "result": "ok"}],
        "trajectory": TALK,
        "context": ["a passage", "another"],
    },
    "metadata": {"tools": [{"name": "book", "inputSchema": {"type": "object"}}], "sessionId": "s-1"},
}
SEVERAL = {
    "scores": [{"name": "tone", "criteria": "Is it kind?"}, {"name": "facts", "criteria": "Is it right?"}],
    "evaluationParams": ["INPUT", "ACTUAL_OUTPUT", "TOOL_CALLS", "TOOLS", "CONTEXT", "CONVERSATION", "METADATA"],
}
SCORED = {"scores": [{"index": 1, "score": 1, "reason": "r"}, {"index": 2, "score": 0, "reason": "r"}]}
TEMPLATE = """version: 3
[system]
Judge the bookings, from {{minimum}} to {{maximum}}.
[user]
Asked: {{input}}
Called: {{tool_calls}}"""
RENDERED: list[tuple[str, dict[str, Any], dict[str, Any], object]] = [
    (
        "llm_judge",
        {
            "criteria": "Is the answer correct?",
            "evaluationParams": ["INPUT", "ACTUAL_OUTPUT", "EXPECTED_OUTPUT"],
            "scoreRange": [1, 5],
        },
        PAIRS,
        {"score": 2, "reason": "r"},
    ),
    ("llm_judge_scores", SEVERAL, PAIRS | WHOLE, SCORED),
    ("template_score", {"template": TEMPLATE, "evaluationParams": ["INPUT", "TOOL_CALLS"]}, TRIP, {"score": 1}),
    (
        "template_scores",
        SEVERAL | {"template": TEMPLATE.replace("{{input}}\nCalled: {{tool_calls}}", "{{data}}")},
        PAIRS | WHOLE,
        SCORED,
    ),
    ("faithfulness", {}, CONTEXT, [{"claims": ["Flights were found."]}, SUPPORT]),
    ("contextual_relevance", {"retrievalContextKey": "toolCalls"}, with_outputs(toolCalls=["a chunk"]), {"score": 1}),
    ("task_completion", {}, TRIP, tasks([True, True])),
    ("tool_argument_hallucination", {}, TRIP, calls([True, True])),
    ("plan_quality", {}, TRIP, {"quality": True}),
    ("plan_adherence", {}, TRIP, {"plan_followed": True}),
    ("tool_name_reliability", {}, tools({"name": "book_hotel"}), dict.fromkeys(NAME_CHECKS, True)),
    ("tool_description_reliability", {}, tools(a_tool(1, 1)), dict.fromkeys(DESCRIPTION_CHECKS, True)),
    (
        "conversation_trajectory",
        {"criteria": ["goalCompletion"], "includeToolCalls": True},
        {"actualOutputs": {"trajectory": TALK}},
        {"score": 1},
    ),
    (
        "recall",
        {"retrievedKey": "docs", "expectedKey": "wanted", "matchingStrategy": {"type": "llmBased"}},
        {"inputs": {"input": "q"}, "actualOutputs": {"docs": ["5 nights"]}, "expectedOutputs": {"wanted": ["five"]}},
        {"match": True},
    ),
    ("pairwise", {"compare": "TRAJECTORIES"}, {**PAIRS, "expectedOutputs": {"toolCalls": []}}, {"winner": "tie"}),
]


@pytest.mark.parametrize("name,configuration,case,script", RENDERED, ids=[name for name, *_ in RENDERED])
def test_prompts_are_what_was_reviewed(
    name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], script: object, golden: Any
) -> None:
    """What a judge is asked, to the last character; a change shows as a diff of tests/golden."""
    evaluator = "llm_judge" if name in KINDS["llm_judge"].prompts else name
    outcome, requests = judged(evaluator, configuration, case, script)
    assert isinstance(outcome, Verdict), outcome
    renders = sorted(f"system:\n{one.system}\n\nuser:\n{one.user}\n" for one in requests)
    golden(f"prompts/{name}.txt", "\n=====\n\n".join(renders))
