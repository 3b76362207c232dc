"""The examples that Dokimos documents in Java, as they are written in Python with the SDK."""

import asyncio
import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from tests.model_server import ModelRequest, ModelServer, Says, Step, a_model
from tracejury import Builtin, Dataset, Example, Experiment, Measured, Score, ToolCall, assert_eval, evaluator

COMMAND = (str(Path(sys.executable).parent / "tracejury"), "evaluate", "--batch", "-")


def schema(**types: str) -> dict[str, Any]:
    """Return a JSON schema of an object whose members are all required."""
    return {
        "type": "object",
        "properties": {name: {"type": of, "description": f"The {name}"} for name, of in types.items()},
        "required": list(types),
    }


TOOLS = [
    {
        "name": "search_flights",
        "description": "Search for available flights",
        "inputSchema": schema(origin="string", destination="string"),
    },
    {"name": "book_hotel", "description": "Book a hotel room", "inputSchema": schema(city="string", nights="integer")},
]
FLIGHT = ToolCall("search_flights", {"origin": "JFK", "destination": "CDG"}, result="3 flights")
HOTEL = ToolCall("book_hotel", {"city": "Paris", "nights": 5}, result='{"confirmation": "ABC123", "total": 540.0}')
QUESTION = "Find flights from NYC to Paris and book a hotel for 5 nights"
ANSWER = "Found flights and booked your hotel in Paris."


def builtin(evaluator_name: str, /, **config: Any) -> Builtin:
    """Return an evaluator of the program."""
    return Builtin(evaluator_name, config, command=COMMAND)


def travel(*expected: ToolCall) -> Example:
    """Build a question to the travel agent, with its expected calls and the tools for each task."""
    return Example(
        inputs={"input": QUESTION},
        expected_outputs={"toolCalls": [call.document() for call in expected]},
        metadata={"tools": TOOLS, "tasks": ["Search for flights", "Book a hotel"]},
    )


def called(*calls: ToolCall, output: str = ANSWER) -> dict[str, Any]:
    """Build the output of the agent: its answer and its calls."""
    return {"output": output, "toolCalls": [call.document() for call in calls]}


def a_judge(request: ModelRequest) -> Step:
    """Build a model that finds both tasks done, and the second call made up."""
    if "completed" in json.dumps(request.schema):
        return Says({"tasks": [{"index": place, "reason": "done", "completed": True} for place in (1, 2)]})
    calls = [{"index": 1, "reason": "asked", "grounded": True}, {"index": 2, "reason": "no city", "grounded": False}]
    return Says({"calls": calls})


def judge(server: ModelServer) -> dict[str, Any]:
    """Return the settings of the judge's connection."""
    return {"baseUrl": server.base_url, "model": "judge", "protocol": "CHAT_COMPLETIONS"}


def test_an_agent_is_scored_on_the_tools_that_it_called() -> None:
    """The quick start, and its experiment: two checks and two judges, with tools and tasks in the metadata."""
    with a_model(a_judge) as server:
        evaluators = [
            builtin("tool_call_validity"),
            builtin("tool_correctness"),
            builtin("task_completion", judge=judge(server)),
            builtin("tool_argument_hallucination", judge=judge(server)),
        ]
        dataset = Dataset("Travel Agent", [travel(ToolCall("search_flights"), ToolCall("book_hotel"))])
        (item,) = (
            Experiment("Travel Agent Evaluation", dataset, lambda _: called(FLIGHT, HOTEL), evaluators).run().items
        )
        assert len(server.requests) == 2
    assert [(score.name, score.value, score.success) for score in item.scores] == [
        ("Tool Call Validity", 1.0, True),
        ("Tool Correctness", 1.0, True),
        ("Task Completion", 1.0, True),
        ("Tool Argument Hallucination", 0.5, False),
    ]
    assert item.passed is False


@pytest.mark.parametrize(
    "evaluator_name, config, calls, expected, score",
    [
        ("tool_trajectory", {"matchMode": "IN_ORDER"}, [FLIGHT, HOTEL], [FLIGHT, HOTEL], 1.0),
        ("tool_trajectory", {"matchMode": "IN_ORDER"}, [HOTEL, FLIGHT], [FLIGHT, HOTEL], 0.5),
        ("tool_trajectory", {"matchMode": "STRICT"}, [HOTEL, FLIGHT], [FLIGHT, HOTEL], 0.0),
        ("tool_trajectory", {"matchMode": "ANY_ORDER"}, [HOTEL, FLIGHT], [FLIGHT, HOTEL], 1.0),
        ("tool_trajectory", {"matchMode": "SUPERSET"}, [FLIGHT, HOTEL], [HOTEL], 1.0),
        ("tool_trajectory", {"matchMode": "SUBSET"}, [FLIGHT, HOTEL], [HOTEL], 0.0),
        ("tool_trajectory", {"matchMode": "PRECISION"}, [FLIGHT, HOTEL], [HOTEL], 0.5),
        ("tool_trajectory", {"matchMode": "RECALL"}, [FLIGHT, HOTEL], [HOTEL], 1.0),
        ("tool_trajectory", {"matchMode": "SUPERSET"}, [HOTEL], [ToolCall("book_hotel")], 0.0),
        (
            "tool_trajectory",
            {"matchMode": "SUPERSET", "argumentMatcher": "IGNORE"},
            [HOTEL],
            [ToolCall("book_hotel")],
            1.0,
        ),
        (
            "tool_trajectory",
            {"matchMode": "ANY_ORDER", "argumentMatchers": {"book_hotel": "SUBSET"}},
            [HOTEL, FLIGHT],
            [FLIGHT, ToolCall("book_hotel", {"city": "Paris"})],
            1.0,
        ),
        (
            "tool_trajectory",
            {"argumentMatcher": {"mode": "SUBSET", "trimStrings": True, "caseInsensitive": True}},
            [HOTEL],
            [ToolCall("book_hotel", {"city": " PARIS "})],
            1.0,
        ),
        ("tool_correctness", {}, [HOTEL, FLIGHT, FLIGHT], [FLIGHT, HOTEL], 1.0),
        ("tool_correctness", {"matchMode": "NAMES_AND_ORDER"}, [HOTEL, FLIGHT], [FLIGHT, HOTEL], 0.5),
        (
            "tool_correctness",
            {"matchMode": "NAMES_AND_ARGS"},
            [HOTEL],
            [ToolCall("book_hotel", {"city": "Paris", "nights": 5.0})],
            1.0,
        ),
        ("tool_error", {"errorDetector": {"contains": "HTTP 500"}}, [FLIGHT, ToolCall("x", {}, "HTTP 500")], [], 0.5),
        ("tool_error", {}, [FLIGHT, ToolCall("x", {}, '{"error": "no"}'), ToolCall("y"), HOTEL], [], 0.5),
        ("tool_efficiency", {}, [FLIGHT, FLIGHT, HOTEL, FLIGHT], [], 0.5),
        ("tool_call_validity", {"strictMode": True}, [ToolCall("book_hotel", {"city": "Paris", "night": 5})], [], 0.0),
        ("tool_name_reliability", {}, [], [], 1.0),
        ("tool_description_reliability", {"maxInputArgs": 1}, [], [], 0.75),
    ],
)
def test_calls_are_compared_in_every_documented_way(
    evaluator_name: str, config: dict[str, Any], calls: list[ToolCall], expected: list[ToolCall], score: float
) -> None:
    """Each mode of each check, with its matchers, over calls of the travel agent."""
    verdict = builtin(evaluator_name, **config)(travel(*expected), called(*calls))
    assert verdict.error is None
    assert verdict.value == pytest.approx(score)


@dataclass(frozen=True)
class Invoice:
    """An invoice that an application extracts."""

    id: str
    total: float
    items: tuple[str, ...]


def test_typed_outputs_are_compared_by_value() -> None:
    """An object of the application's own is scored by its members, and a number by its value."""
    structural = builtin("structural_match", name="Invoice Match", threshold=1.0)
    example = Example(
        inputs={"input": "?"}, expected_outputs={"output": {"id": "INV-1", "total": 42, "items": ["a", "b"]}}
    )
    score = structural(example, {"output": Invoice("INV-1", 42.00, ("a", "b"))})
    assert (score.name, score.value, score.success) == ("Invoice Match", 1.0, True)
    assert structural(example, {"output": asdict(Invoice("INV-1", 42.0, ("b", "a")))}).value == 0.5


def test_retrieved_facts_are_matched_by_their_fields() -> None:
    """If one of two triples is found, the precision is 1 and the recall 0.5."""
    keys = {
        "retrievedKey": "triples",
        "expectedKey": "relevantTriples",
        "matchingStrategy": {"type": "byFields", "fields": ["subject", "predicate", "object"]},
    }
    founded = {"subject": "Bill Gates", "predicate": "founded", "object": "Microsoft"}
    example = Example(
        inputs={"input": "Who founded Microsoft?"},
        expected_outputs={"relevantTriples": [founded, founded | {"subject": "Paul Allen"}]},
    )
    outputs = {"triples": [founded | {"rank": 1}]}
    assert [builtin(name, **keys)(example, outputs).value for name in ("precision", "recall")] == [1.0, 0.5]


class Movie(BaseModel):
    """A movie in an application's answer."""

    title: str
    director: str


@evaluator(name="Movie Director", threshold=1.0)
def director(example: Example, outputs: Mapping[str, Any]) -> Score:
    """Compare the directors of outputs and expectations, read as movies."""
    actual, expected = Movie.model_validate(outputs["output"]), Movie.model_validate(example.expected_output)
    right = actual.director == expected.director
    return Score(value=float(right), reason="Director matches" if right else "Wrong director")


class ResponseLength:
    """A check with a configuration of its own."""

    def __init__(self, low: int, high: int) -> None:
        self._bounds = range(low, high + 1)

    def __call__(self, _example: Example, outputs: Mapping[str, Any]) -> Score:
        """Check the length of the answer."""
        is_within = len(outputs["output"]) in self._bounds
        return Score(value=float(is_within), reason="Good length" if is_within else "Too short or too long")


def test_evaluators_of_ones_own() -> None:
    """A function and an object judge, and a test fails with their reason."""
    inception = Movie(title="Inception", director="Christopher Nolan")
    example = Example(inputs={"input": "Inception"}, expected_outputs={"output": inception.model_dump()})
    (right,) = Experiment("movie", Dataset("m", [example]), lambda _: {"output": inception}, [director]).run().items
    assert [(each.name, each.reason, each.success) for each in right.scores] == [
        ("Movie Director", "Director matches", True)
    ]
    wrong = director(example, {"output": {"title": "Inception", "director": "James Cameron"}})
    with pytest.raises(AssertionError, match=r"Movie Director.*score=0.00 \(threshold=1.00\)\nReason: Wrong director"):
        assert_eval(wrong, director)
    for failed in (Score(error="timeout"), Score(error_kind="timeout")):
        with pytest.raises(AssertionError, match="could not be made: timeout"):
            assert_eval(failed)
    length = ResponseLength(50, 500)
    assert [length(example, {"output": "x" * count}).success for count in (49, 50, 500, 501)] == [
        False,
        True,
        True,
        False,
    ]


def test_datasets_are_made_joined_and_looked_at(tmp_path: Path) -> None:
    """Written in the program, read from files of each form, and a base with edge cases after it."""
    review = Example(
        inputs={"query": "Show me a code review", "prNumber": "1234", "repository": "acme/backend"},
        expected_outputs={"summary": "A new middleware", "recommendations": ["Add unit tests"]},
        metadata={"category": "code-review", "difficulty": "medium"},
    )
    assert Dataset("Code Review Assistant", [review], description="Reviews")[0].inputs["prNumber"] == "1234"
    files = {
        "greetings.json": '{"name": "test-dataset", "examples": [{"input": "Hello", "expectedOutput": "Hi"}]}',
        "greetings.jsonl": '{"input": "Hello", "expectedOutput": "Hi"}\n{"input": "Bye", "expectedOutput": "By"}\n',
        "greetings.csv": 'input,expectedOutput\nHow do I pay?,"By card, or PayPal"\n',
    }
    loaded = []
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        loaded.append(Dataset.load(f"file:{tmp_path / name}"))
    assert [(each.name, len(each)) for each in loaded] == [("test-dataset", 1), ("greetings", 2), ("greetings", 1)]
    assert loaded[2][0].expected_output == "By card, or PayPal"
    edges = [Example(inputs={"input": text}, expected_outputs={"output": "…"}) for text in ("", "a" * 1_000)]
    joined = Dataset("qa-with-edge-cases", [*loaded[1], *edges])
    assert [len(example.input) for example in joined] == [5, 3, 0, 1_000]


def test_runs_are_repeated_measured_and_made_without_waiting() -> None:
    """Three trials of four at a time, with what each call took, over a coroutine that waits."""
    running, most = 0, 0

    async def task(example: Example) -> Measured:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Measured({"output": example.input.upper()}, tokens_in=12, tokens_out=3, cost_usd=0.001)

    counter = itertools.count()

    def varies(_example: Example, _outputs: Any) -> float:
        return 0.5 + 0.1 * (next(counter) % 3)

    dataset = Dataset("qa", [Example(id=text, inputs={"input": text}) for text in "abcdefgh"])
    result = Experiment("Knowledge Assistant Evaluation", dataset, task, [varies], trials=3, parallelism=4).run()
    assert (len(result.items), most) == (24, 4)
    assert result.average_score("varies") == pytest.approx(0.6)
    assert result.score_std_dev("varies") is not None
    assert sum(item.measured.tokens_in or 0 for item in result.items if item.measured) == 288
    assert {item.outputs["output"] for item in result.items} == set("ABCDEFGH")


def test_results_of_tools_are_read_back_as_objects() -> None:
    """A result that is JSON becomes a typed value again, and a list of them one, too."""
    confirmation = TypeAdapter(dict[str, str | float]).validate_json(HOTEL.result)
    assert confirmation == {"confirmation": "ABC123", "total": 540.0}
    again = ToolCall.of(json.loads(json.dumps(HOTEL.document())))
    assert again == HOTEL
    of_openai = {"id": "call_1", "type": "function", "function": {"name": "book_hotel", "arguments": '{"nights": 5}'}}
    assert ToolCall.of(of_openai) == ToolCall("book_hotel", {"nights": 5}, id="call_1")
