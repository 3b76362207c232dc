"""The evaluator that runs a program, and the programs that ship as examples."""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.case import parse_case
from evaluators.code_judge import CodeJudge, payload_of
from evaluators.errors import BadConfiguration
from evaluators.evaluator import run
from evaluators.model import text_of
from evaluators.outcome import Failure, Outcome, Verdict
from evaluators.registry import build
from tests.source_tree import ROOT

EXAMPLES = ROOT / "docs" / "evaluators" / "examples"
QUESTION = {"inputs": {"input": "What is the weather?"}, "actualOutputs": {"output": "Sunny."}}


def judged(source: str, case: Mapping[str, Any] = QUESTION, **configuration: Any) -> Outcome:
    """Evaluate a case with this program as the judge."""
    return run_judge({"script": [sys.executable, "-c", source]} | configuration, case)


def run_judge(configuration: Mapping[str, Any], case: Mapping[str, Any] = QUESTION) -> Outcome:
    """Evaluate a case with this configuration."""
    return asyncio.run(run(build("code_judge", configuration), parse_case(case)))


def printing(answer: object) -> str:
    """Return a program that prints this."""
    return f"print({answer if isinstance(answer, str) else json.dumps(answer)!r})"


def failure_of(source: str, **configuration: Any) -> Failure:
    """Return the failure of an evaluation with this program as the judge."""
    outcome = judged(source, **configuration)
    assert isinstance(outcome, Failure), outcome
    return outcome


def test_a_program_judges() -> None:
    """The seed's own answer becomes a verdict with its hits, misses, reasoning and details."""
    answer = {
        "score": 0.85,
        "hits": ["Used appropriate search tool", " ", 7],
        "misses": ["Redundant search call"],
        "reasoning": "Good tool selection",
        "details": {"calls": 3},
    }
    verdict = judged(printing(answer))
    assert isinstance(verdict, Verdict)
    assert (verdict.name, verdict.score, verdict.threshold, verdict.success) == ("Code Judge", 0.85, 0.8, True)
    assert verdict.reason == "Good tool selection"
    assert verdict.metadata == {
        "hits": ["Used appropriate search tool"],
        "misses": ["Redundant search call"],
        "details": {"calls": 3},
    }


def test_a_bare_score_is_enough() -> None:
    """Hits, misses and reasoning may be missing or unusable, and white space around the object is nothing."""
    verdict = judged('print(\'\\n  {"score": 1, "hits": 3, "reasoning": null}  \\n\')')
    assert isinstance(verdict, Verdict)
    assert (verdict.score, verdict.reason) == (1.0, "The program gave no reason.")
    listed = judged(printing({"score": 0, "hits": ["a"], "misses": ["b", "c"]}))
    assert isinstance(listed, Verdict)
    assert listed.reason == "Hits: a. Misses: b; c"


@pytest.mark.parametrize(
    "source,words",
    [
        ("pass", "must be one JSON object"),
        ("print('looks good')", "'looks good'"),
        ("print('loading...'); print('{\"score\": 1}')", "with logs on standard error"),
        ('print(\'{"score": 1} {"score": 0}\')', "must be one JSON object"),
        (printing([{"score": 1}]), "must be one JSON object"),
        (printing(1), "must be one JSON object"),
        (printing({}), "the score must be a number"),
        (printing({"score": "0.9"}), "the score must be a number"),
        (printing({"score": True}), "the score must be a number"),
        (printing({"score": None}), "the score must be a number"),
        (printing({"score": 85}), "the score must be from 0 to 1"),
        ("print('{\"score\": 1' + '0' * 400 + '}')", "the score must be from 0 to 1"),
        (printing({"score": -0.1}), "the score must be from 0 to 1"),
        ("print('{\"score\": NaN}')", "NaN is not JSON"),
        ("print('{\"score\": 1e999}')", "too large"),
        ("print('{\"score\": 1')", "must be one JSON object"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", "must be one JSON object"),
        ("print('[' * 100_000)", "nested too deeply"),
        ("import sys\nwhile True: sys.stdout.write('x' * 100_000)", "printed more than 1 MiB (fixed)"),
    ],
)
def test_output_that_is_no_verdict_is_a_failure(source: str, words: str) -> None:
    """Nothing is guessed from what a program should not have printed, and no score is made of it."""
    failure = failure_of(source)
    assert failure.kind == "bad_output"
    assert words in failure.message
    assert len(failure.message) < 500


@pytest.mark.parametrize(
    "source,kind,words",
    [
        ("import sys; sys.exit('no model found')", "judge_error", "ended with exit code 1: no model found"),
        (
            printing({"score": 1}) + "; raise SystemExit(2)",
            "judge_error",
            "ended with exit code 2 and wrote nothing to standard error",
        ),
        ("import os; print('{\"score\": 1}', flush=True); os.kill(os.getpid(), 9)", "judge_error", "killed by SIGKILL"),
        ("raise ValueError('é broken')", "judge_error", "ValueError: é broken"),
    ],
)
def test_a_program_that_breaks_is_a_failure(source: str, kind: str, words: str) -> None:
    """An exit code or a signal is a failure even after a good answer; the end of standard error says why."""
    failure = failure_of(source)
    assert failure.kind == kind
    assert words in failure.message


def test_a_program_that_hangs_is_a_failure() -> None:
    """The time limit is kept, children or not."""
    started = time.monotonic()
    failure = failure_of("import os, time; os.fork(); time.sleep(60)", timeLimitSeconds=0.5)
    assert (failure.kind, failure.message) == ("timeout", "not finished within 0.5 s; killed")
    assert time.monotonic() - started < 30  # of the 60 that it takes


def test_a_program_that_is_not_there_is_a_failure() -> None:
    """The failure names the program that could not be started."""
    failure = run_judge({"script": ["no-such-judge", "--fast"]})
    assert isinstance(failure, Failure)
    assert failure.kind == "not_started"
    assert "'no-such-judge' cannot be started: No such file or directory" in failure.message


@pytest.mark.parametrize(
    "configuration,words",
    [
        ({}, "script: is required"),
        ({"script": []}, "must name a program"),
        ({"script": ""}, "must name a program"),
        ({"script": [""]}, "script"),
        ({"script": "judge.py"}, "script must be a list"),
        ({"script": ["judge.py"], "shell": True}, "script must be a text"),
        ({"script": ["judge.py"], "timeLimitSeconds": 0}, "timeLimitSeconds"),
        ({"script": ["judge.py"], "command": ["x"]}, "unknown key"),
        ({"script": ["judge.py"], "environment": {"A": 1}}, "environment"),
    ],
)
def test_a_program_is_configured_exactly(configuration: Mapping[str, Any], words: str) -> None:
    """A text is for a shell, a list is not, and unknown keys are refused."""
    with pytest.raises(BadConfiguration, match=words):
        build("code_judge", configuration)


def test_a_shell_is_used_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """With `shell` a text may pipe; the working folder and the variables are those of the configuration."""
    (tmp_path / "score").write_text('{"score": 1, "reasoning": "from a file"}', encoding="utf-8")
    configuration = {
        "script": 'cat "$FILE" | cat',
        "shell": True,
        "cwd": str(tmp_path),
        "environment": {"FILE": "score"},
    }
    assert run_judge(configuration).to_document()["reason"] == "from a file"


def test_the_environment_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program finds PATH, LANG and what the configuration names, and no secret of this process."""
    monkeypatch.setenv("TRACEJURY_SECRET", "x")
    source = "import json, os; print(json.dumps({'score': 1, 'details': dict(os.environ)}))"
    verdict = judged(source, environment={"MODE": "fast"})
    assert isinstance(verdict, Verdict)
    assert verdict.metadata["details"].keys() - {"LC_CTYPE"} == {"LANG", "PATH", "MODE"}


# the input contract

CASE = {
    "inputs": {"input": "Find {query}"},
    "actualOutputs": {
        "output": "Found it.",
        "toolCalls": [
            {
                "name": "webSearch",
                "arguments": {"filePath": "a", "file_path": "b", "nested": {"someKey": [1, 1.5, None]}},
                "result": {"resultList": ["x"]},
                "id": "call_123",
                "startTime": "2024-01-15T10:30:00Z",
                "durationMs": 1500,
            },
            {"name": "fetch"},
            {"name": "webSearch", "metadata": {"isError": True}},
        ],
    },
    "expectedOutputs": {"output": "It."},
    "metadata": {
        "criteria": "Finds it",
        "traceSummary": {"tokenUsage": {"input": 1000, "output": 500}, "costUsd": 0.0015, "durationMs": 3500},
    },
}


def payload(case: Mapping[str, Any], **configuration: Any) -> dict[str, Any]:
    """Return the input that a program reads for the case."""
    source = "import json, sys; print(json.dumps({'score': 1, 'details': json.load(sys.stdin)}))"
    verdict = judged(source, case, **configuration)
    assert isinstance(verdict, Verdict), verdict
    details: dict[str, Any] = verdict.metadata["details"]
    return details


def test_a_program_reads_the_seeds_contract() -> None:
    """Question, criteria, both answers, messages with tool calls, and the summary of the run."""
    read = payload(CASE, config={"maxCalls": 3})
    assert (read["question"], read["criteria"], read["config"]) == ("Find {query}", "Finds it", {"maxCalls": 3})
    assert (read["reference_answer"], read["candidate_answer"]) == ("It.", "Found it.")
    assert read["input"] == [{"role": "user", "content": "Find {query}"}]
    assert read["expected_output"] == [{"role": "assistant", "content": "It."}]
    (message,) = read["output_messages"]
    assert (message["role"], message["content"]) == ("assistant", "Found it.")
    assert message["tool_calls"] == [
        {
            "tool": "webSearch",
            "input": {"filePath": "a", "file_path": "b", "nested": {"someKey": [1, 1.5, None]}},
            "output": {"resultList": ["x"]},
            "id": "call_123",
            "timestamp": "2024-01-15T10:30:00+00:00",
            "start_time": "2024-01-15T10:30:00+00:00",
            "end_time": "2024-01-15T10:30:01.500000+00:00",
            "duration_ms": 1500,
        },
        {"tool": "fetch", "input": {}},
        {"tool": "webSearch", "input": {}},
    ]
    assert read["trace_summary"] == {
        "event_count": 3,
        "tool_names": ["fetch", "webSearch"],
        "tool_calls_by_name": {"webSearch": 2, "fetch": 1},
        "error_count": 1,
        "token_usage": {"input": 1000, "output": 500},
        "cost_usd": 0.0015,
        "duration_ms": 3500,
    }
    assert read["test_case"]["expectedOutputs"] == {"output": "It."}


def test_what_a_case_does_not_tell_is_null() -> None:
    """Every key of the contract is there, for any case."""
    empty = payload({})
    assert empty.keys() == payload(CASE).keys()
    assert [empty[key] for key in ("question", "candidate_answer", "output_messages", "trace_summary")] == [None] * 4
    assert payload({}, criteria="from the configuration")["criteria"] == "from the configuration"


def test_a_conversation_is_handed_on_by_its_messages() -> None:
    """Each message keeps its own tool calls."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "toolCalls": [{"name": "look", "arguments": {"at": "it"}}]},
    ]
    read = payload({"actualOutputs": {"trajectory": {"messages": messages}}})
    assert read["output_messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [{"tool": "look", "input": {"at": "it"}}]},
    ]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.dictionaries(st.text(max_size=4), values, max_size=3))
def test_user_data_are_unchanged(value: object, arguments: dict[str, object]) -> None:
    """Keys and values of the user reach the program as they were, however they are spelled."""
    case = parse_case(
        {
            "inputs": {"input": value},
            "actualOutputs": {"output": value, "toolCalls": [{"name": "t", "arguments": arguments, "result": value}]},
            "metadata": {"someKey": value},
        }
    )
    read = json.loads(text_of(payload_of(case, CodeJudge(script=("judge",)))))
    call = read["output_messages"][0]["tool_calls"][0]
    assert call["input"] == arguments
    assert call.get("output") == value
    assert read["test_case"]["inputs"]["input"] == value
    assert read["test_case"]["metadata"]["someKey"] == value


def test_what_utf_8_cannot_carry_reaches_the_program() -> None:
    """Half a surrogate pair, which JSON can write, is not a reason to fail."""
    assert payload({"inputs": {"input": "\ud800"}})["question"] == "\ud800"


# the examples


def example(name: str, case: Mapping[str, Any], **configuration: Any) -> Verdict:
    """Return the verdict of one of the programs that ship with the documentation."""
    outcome = run_judge({"script": [sys.executable, str(EXAMPLES / name)], **configuration}, case)
    assert isinstance(outcome, Verdict), outcome
    return outcome


def a_run(*tools: str, **more: Any) -> dict[str, Any]:
    """Build a case in which these tools were called."""
    calls = [{"name": tool} for tool in tools]
    case: dict[str, Any] = {
        "inputs": {"input": "Find the docs"},
        "actualOutputs": {"output": "Here.", "toolCalls": calls},
    }
    return case | more


@pytest.mark.parametrize(
    "tools,question,score",
    [
        (["web_search"], "Find the docs", 1.0),
        (["web_search", "web_search"], "Find the docs", 1.0),
        (["web_search", "write_file"], "Find the docs", 0.5),
        (["write_file"], "Find the docs", 0.0),
        (["anything"], "Hello", 1.0),
        (["web_search"], "Find and save and analyze it", 0.33),
        ([], "Find the docs", 0.0),
    ],
)
def test_example_tool_selection(tools: list[str], question: str, score: float) -> None:
    """Tools that fit the words of the task are hits; others, and families that are missing, are misses."""
    verdict = example("tool_selection.py", a_run(*tools, inputs={"input": question}))
    assert verdict.score == score
    assert verdict.reason


@pytest.mark.parametrize(
    "tools,summary,score",
    [
        (["read", "read", "read", "edit", "edit"], {}, 1.0),
        (["read"] * 15, {}, 0.6),
        (["edit"], {}, 0.85),
        (["read", "read", "read", "edit", "edit"], {"tokenUsage": {"input": 3000, "output": 1000}}, 0.83),
        (["read", "read", "read", "edit", "edit"], {"costUsd": 0.02}, 0.83),
    ],
)
def test_example_tool_efficiency(tools: list[str], summary: Mapping[str, Any], score: float) -> None:
    """The score depends on calls, the share of exploring ones, tokens and cost, if these are known."""
    verdict = example("tool_efficiency.py", a_run(*tools, metadata={"traceSummary": summary}))
    assert verdict.score == score


def test_example_tool_efficiency_is_configured() -> None:
    """The limits come from `config`; a complex task may use more; a run of which nothing is known scores one half."""
    case = a_run("read", "read", "edit", metadata={"traceSummary": {"tokenUsage": {"input": 9000, "output": 0}}})
    assert example("tool_efficiency.py", case).score == 0.83
    assert example("tool_efficiency.py", case, criteria="Compare several sources").score == 1.0
    assert example("tool_efficiency.py", case, config={"max_tokens": 9000}).score == 1.0
    assert example("tool_efficiency.py", {}).score == 0.5


@pytest.mark.parametrize(
    "tools,expected,answer,score",
    [
        (["a"], ["a", "a"], "same", 1.0),
        (["a", "a"], ["a"], "same", 0.0),
        (["a", "b"], ["a", "b"], "same", 0.5),
        (["a", "b"], ["a", "a"], "same", 1.0),
        (["a"], [], "same", 1.0),
        ([], ["a"], "same", 0.0),
        ([], [], "a much longer answer", 1.0),
    ],
)
def test_example_pairwise(tools: list[str], expected: list[str], answer: str, score: float) -> None:
    """The side with more points wins in both orders, or it is a tie."""
    baseline = {"output": "same", "toolCalls": [{"name": tool} for tool in expected]}
    case = a_run(*tools, expectedOutputs=baseline)
    case["actualOutputs"]["output"] = answer
    verdict = example("pairwise_tools.py", case)
    assert verdict.score == score
    assert verdict.metadata["details"]["position_bias"] is False


def test_example_pairwise_needs_a_baseline() -> None:
    """Without a reference answer nothing can be compared."""
    assert example("pairwise_tools.py", a_run("a")).score == 0.5
