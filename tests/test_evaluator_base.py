"""The base of every evaluator: shapes on the wire, configuration, outcomes, fingerprints, paths, the border."""

import asyncio
from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter, ValidationError

from collector.api.base.numbers import Number as ClientsNumber
from collector.conventions.values import fraction
from evaluators.case import parse_case
from evaluators.errors import BadCase, BadConfiguration, BadReply
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure, run
from evaluators.judge_interface import Judge
from evaluators.judges.asking import Number
from evaluators.model import AgentTrace, Case, Conversation, ToolCall, ToolDefinition
from evaluators.outcome import Failure, Outcome, Skipped, Verdict
from evaluators.path import PathNotFound, parse_path
from evaluators.prompting import prompt
from evaluators.registry import build
from evaluators.text import ExactMatch
from storage.records import number_in
from tests.evaluating import ScriptedJudge


def a_kind(check: Check, **changes: object) -> EvaluatorKind[ExactMatch]:
    """Build a kind of evaluator with this check."""
    values = {
        "name": "a_kind",
        "title": "A EvaluatorKind",
        "version": 1,
        "checks": "Something.",
        "reads": ("inputs.input",),
        "configuration": ExactMatch,
        "check": lambda _: check,
    }
    return EvaluatorKind(**(values | changes))  # type: ignore[arg-type] # a table of changes


def judged(kind: EvaluatorKind[ExactMatch], judge: Judge | None = None, **configuration: object) -> Outcome:
    """Evaluate an empty case."""
    return asyncio.run(run(kind.build({"evaluationParams": []} | configuration, judge), Case()))


def test_case_takes_both_spellings_and_keeps_the_users_keys() -> None:
    """A case may be written in camelCase or snake_case, and the keys inside its maps are unchanged."""
    camel = parse_case({"actualOutputs": {"myKey": 1, "my_key": 2}})
    snake = parse_case({"actual_outputs": {"myKey": 1, "my_key": 2}})
    assert camel == snake
    assert camel.actual_outputs == {"myKey": 1, "my_key": 2}


@pytest.mark.parametrize(
    "document, message",
    [
        ({"actualOutput": {}}, "actualOutput: unknown key; did you mean actualOutputs? there are: actualOutputs, "),
        ({"inputs": [1]}, "inputs: "),
        ([], "the test case: expected an object (got [])"),
        ({"actualOutputs": {}, "actual_outputs": {}}, "actual_outputs: unknown key"),
    ],
)
def test_case_that_is_none_is_refused_by_key(document: object, message: str) -> None:
    """An error in a test case names the wrong key."""
    with pytest.raises(BadCase, match="the test case") as refused:
        parse_case(document)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "name, configuration, message",
    [
        ("exact_macth", {}, "there is no evaluator 'exact_macth'; did you mean exact_match? there are: code_judge, "),
        ("exact_match", {"treshold": 1}, "exact_match: treshold: unknown key; did you mean threshold? there are: "),
        ("exact_match", {"threshold": 1.5}, "threshold: input should be less than or equal to 1 (got 1.5)"),
        ("exact_match", {"ignoreCase": "yes"}, "exact_match: ignoreCase: input should be a valid boolean (got 'yes')"),
        ("exact_match", {"path": "$.a..b"}, "exact_match: path: not a path at character 4"),
        ("exact_match", {"evaluationParams": ["OUTPUT"]}, "'INPUT', 'ACTUAL_OUTPUT', 'EXPECTED_OUTPUT', "),
        ("regex", {}, "regex: pattern: is required"),
        ("regex", {"pattern": " "}, "regex: pattern: must not be blank"),
        ("regex", {"pattern": "("}, "regex: pattern: must be a regular expression of RE2: missing )"),
        ("length", {"maximumOutputLength": 0}, "maximumOutputLength: input should be greater than or equal to 1"),
        ("length", {"minimumOutputLength": 3, "maximumOutputLength": 2}, "minimumOutputLength must not be above"),
    ],
)
def test_configuration_that_cannot_be_used_is_refused_by_key(
    name: str, configuration: Mapping[str, object], message: str
) -> None:
    """A refused configuration names the key, and says what would be right."""
    with pytest.raises(BadConfiguration) as refused:
        build(name, configuration)
    assert message in str(refused.value)


def test_configuration_takes_both_spellings() -> None:
    """A configuration may be written in camelCase or snake_case, and means the same evaluator."""
    camel, snake = build("exact_match", {"ignoreCase": True}), build("exact_match", {"ignore_case": True})
    assert camel.fingerprint == snake.fingerprint


def test_fingerprint_is_of_what_changes_verdicts() -> None:
    """A default that is written out and a new name keep the fingerprint; other configuration changes it."""
    plain = build("exact_match", {}).fingerprint
    assert build("exact_match", {"threshold": 1, "name": "Renamed"}).fingerprint == plain
    assert build("exact_match", {"ignoreCase": True}).fingerprint != plain
    assert build("exact_match", {}, additions={"expected": {"output": "4"}}).fingerprint != plain
    assert build("regex", {"pattern": "a"}).fingerprint != build("regex", {"pattern": "b"}).fingerprint


def test_fingerprint_knows_the_judge_only_where_one_is_asked() -> None:
    """The judge's model is part of the fingerprint of an evaluator that judges, and of no other."""
    check = pure(lambda _: Assessment(score=1.0, reason=""))
    asking = a_kind(check, judge=lambda _: "optional", prompts=("item_match",))
    assert asking.build({}, ScriptedJudge()).fingerprint != asking.build({}).fingerprint
    assert a_kind(check).build({}, ScriptedJudge()).fingerprint == a_kind(check).build({}).fingerprint


def test_evaluator_that_needs_a_judge_is_not_built_without() -> None:
    """Without a judge, what always asks one is refused as configuration."""
    with pytest.raises(BadConfiguration, match="a_kind: needs a judge, and none is configured"):
        a_kind(pure(lambda _: Assessment(score=1.0, reason="")), judge=lambda _: "always").build({})


def test_success_follows_the_direction() -> None:
    """At the threshold both directions pass; beyond it only the better side does."""
    for score, higher, lower in [(0.4, False, True), (0.5, True, True), (0.6, True, False)]:
        check = pure(lambda _, score=score: Assessment(score=score, reason=""))  # type: ignore[misc] # of the loop
        for direction, passes in (("higher", higher), ("lower", lower)):
            outcome = judged(a_kind(check, direction=direction), threshold=0.5)
            assert isinstance(outcome, Verdict)
            assert outcome.success is passes


def test_what_breaks_is_a_failure_without_a_number() -> None:
    """An exception in an evaluator becomes a failure that has a kind, a message and no score."""

    async def check(_case: Case, _judge: Judge | None) -> Assessment:
        raise ZeroDivisionError("by nothing")

    document = judged(a_kind(check)).to_document()
    assert document["outcome"] == "failure"
    assert document["failure"] == {"kind": "evaluator_error", "message": "ZeroDivisionError: by nothing"}
    assert (document["score"], document["success"]) == (None, None)


def test_score_outside_its_range_is_a_failure() -> None:
    """No verdict carries a score that is not between 0 and 1."""
    for score in (1.01, -0.1, float("nan"), float("inf")):
        outcome = judged(a_kind(pure(lambda _, score=score: Assessment(score=score, reason=""))))  # type: ignore[misc] # of the loop
        assert isinstance(outcome, Failure)


def test_failure_tells_what_was_spent_before() -> None:
    """The cost of a judge is reported even if its answer could not be used."""

    async def check(_case: Case, judge: Judge | None) -> Assessment:
        assert judge is not None
        await judge([], {"score": {}})
        await judge([], {"score": {}})
        raise BadReply("there is no score")

    outcome = judged(a_kind(check, judge=lambda _: "always"), ScriptedJudge({}, {}))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.message) == ("bad_reply", "there is no score")
    assert outcome.usage is not None
    assert outcome.usage.to_document() == {
        "calls": 2,
        "model": "judge-1",
        "inputTokens": 20,
        "outputTokens": 4,
        "costUsd": None,
        "latencyMs": 10.0,
    }


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_vacuous_check_becomes_what_is_configured(direction: str) -> None:
    """A check that found nothing to check passes, fails or is skipped, as its configuration says."""
    best = 1.0 if direction == "higher" else 0.0
    kind = a_kind(pure(lambda _: Assessment(score=best, reason="Nothing.", vacuous=True)), direction=direction)
    passed, failed = (judged(kind, whenVacuous=choice, threshold=0.5) for choice in ("PASS", "FAIL"))
    assert isinstance(passed, Verdict)
    assert isinstance(failed, Verdict)
    assert (passed.success, failed.success) == (True, False)
    assert isinstance(judged(kind, whenVacuous="SKIP"), Skipped)


def test_outcomes_have_one_shape_on_the_wire() -> None:
    """Verdicts, failures and skips have the same keys, so that a table of them has the same columns."""
    check = pure(lambda _: Assessment(score=1.0, reason="Nothing.", vacuous=True))
    verdict, skipped = judged(a_kind(check)), judged(a_kind(check), whenVacuous="SKIP")
    failure = Failure(name="x", fingerprint=None, kind="bad_case", message="no", usage=None)
    keys = [
        *("name", "outcome", "score", "threshold", "success", "reason"),
        *("metadata", "fingerprint", "usage", "failure", "direction"),
    ]
    assert all(list(outcome.to_document()) == keys for outcome in (verdict, skipped, failure))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("$", {"a": [{"b c": 1}, {"b": '{"x": [true]}'}], "": 2, "d.e": 3}),
        ("", {"a": [{"b c": 1}, {"b": '{"x": [true]}'}], "": 2, "d.e": 3}),
        ("$.a[0]['b c']", 1),
        ('a[0]["b c"]', 1),
        ("$.a[-1].b.x[0]", True),
        ('$[""]', 2),
        ('$["d.e"]', 3),
    ],
)
def test_path_leads_to_its_value(text: str, expected: object) -> None:
    """Members, elements from both ends, quoted names, and JSON in text on the way are found."""
    value = {"a": [{"b c": 1}, {"b": '{"x": [true]}'}], "": 2, "d.e": 3}
    assert parse_path(text).find(value) == expected
    assert parse_path(str(parse_path(text))) == parse_path(text)


@pytest.mark.parametrize("text", ["$a", "$..a", "a.", "a[", "a[x]", "a[*]", 'a["b]', "$.a b[", "."])
def test_what_is_no_path_is_refused(text: str) -> None:
    """A path outside the grammar is refused with the position of the first wrong character."""
    with pytest.raises(ValueError, match="not a path at character"):
        parse_path(text)


@pytest.mark.parametrize("text", ["$.b", "$.a.b", "$.a[3]", "$[0]", "$.a[0].b", "$.t.x"])
def test_path_to_nothing_says_so(text: str) -> None:
    """A step that has nothing to enter is an error, never a null."""
    with pytest.raises(PathNotFound):
        parse_path(text).find({"a": [1, None], "t": "not JSON"})


def test_agent_trace_becomes_a_case() -> None:
    """A run with its tools and tasks is a test case under the keys that the evaluators read."""
    call = ToolCall(name="search", arguments={"q": 1}, result={"hits": [1, 2]})
    trace = AgentTrace(tool_calls=(call,), final_response="Done.")
    case = trace.to_case("Find it", tools=[ToolDefinition(name="search")], tasks=["find"])
    assert case.inputs == {"input": "Find it"}
    assert case.actual_outputs == {"toolCalls": (call,), "reasoningSteps": (), "output": "Done."}
    assert case.metadata == {"tools": [ToolDefinition(name="search")], "tasks": ["find"]}
    assert call.result_text == '{"hits":[1,2]}'


def test_conversation_counts_turns_and_groups_calls() -> None:
    """Turns are pairs, calls belong to the assistant's messages, and the transcript shows the requested parts."""
    call = {"name": "get_weather", "arguments": {"city": "Paris"}}
    conversation = Conversation.model_validate(
        {
            "messages": [
                {"role": "assistant", "content": "Hello."},
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": "Sunny.", "tool_calls": [call]},
            ]
        }
    )
    assert conversation.turn_count == 1
    assert [len(calls) for calls in conversation.tool_calls_by_turn] == [0, 1]
    assert conversation.to_text() == "Assistant: Hello.\nUser: Weather?\nAssistant: Sunny."
    assert conversation.to_text(tool_calls="names").endswith("Sunny.\n  [tool: get_weather]")
    assert conversation.to_text(tool_calls="arguments").endswith('[tool: get_weather({"city":"Paris"})]')


def test_prompt_never_reads_a_value_as_a_template() -> None:
    """What looks like a placeholder inside a value stays as it is."""
    _, user = prompt("item_match").render({"found": "{{wanted}}", "wanted": "secret", "boundary": "b"})
    assert "found:\n{{wanted}}\n" in user.content


@pytest.mark.parametrize(
    "text", ["0_1", "1_000", "\u0661", "\uff11", "1e400", "0x1", "NaN", "-inf", "", " ", "1 2", "\u00a01"]
)
def test_what_only_python_calls_a_number_is_none(text: str) -> None:
    """Scores of judges, of clients, of forms and of spans are decimal, in the digits of ASCII, and finite."""
    assert number_in(text) is None
    for kind in (Number, ClientsNumber):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(text)
    assert fraction(text) is None


@pytest.mark.parametrize("text", ["1", " 1 ", "+1", "1.", "1e0", "10E-1"])
def test_a_decimal_number_may_be_text(text: str) -> None:
    """Signs, exponents and white space are read."""
    assert (number_in(text), fraction(text), TypeAdapter(ClientsNumber).validate_python(text)) == (1, 1, 1)
