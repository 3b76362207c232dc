"""A judge from the command line and from the lines of a batch."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from collector.cli.main import main
from tests.model_server import CHAT, RESPONSES, ModelRequest, Says, Status, Step, a_model

CRITERIA = {"criteria": "Is it right?", "evaluationParams": ["ACTUAL_OUTPUT"]}
CASE = {"actualOutputs": {"output": "Oslo"}}


def tracejury(*arguments: str, stdin: object = CASE) -> Result:
    """Run a command in this process with this on standard input."""
    text = stdin if isinstance(stdin, str) else json.dumps(stdin)
    result = CliRunner().invoke(main, ["evaluate", *arguments], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def judged(*flags: str) -> Result:
    """Judge one case by criteria."""
    return tracejury("--evaluator", "llm_judge", "--config", json.dumps(CRITERIA), *flags, "-")


@pytest.mark.parametrize("protocol,path", [("chat_completions", CHAT), ("RESPONSES", RESPONSES), (None, RESPONSES)])
def test_flags_name_the_judge(monkeypatch: pytest.MonkeyPatch, protocol: str | None, path: str) -> None:
    """Address, model, protocol and the key's variable come from the command line, and the key is shown nowhere."""
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    with a_model({"score": 0.9, "reason": "It is."}) as server:
        flags = ["--judge-base-url", server.base_url, "--judge-model", "judge-7", "--judge-key-env", "MY_KEY"]
        result = judged(*flags, *(["--judge-protocol", protocol] if protocol else []))
    document = json.loads(result.stdout)
    assert (result.exit_code, document["score"], document["reason"]) == (0, 0.9, "It is.")
    assert document["usage"]["inputTokens"] == 100
    (request,) = server.requests
    assert (request.path, request.body["model"], request.headers["authorization"]) == (
        path,
        "judge-7",
        "Bearer sk-very-secret",
    )
    assert "sk-very-secret" not in result.output


def test_the_prompt_is_shown_without_a_judge() -> None:
    """What would be asked is printed, what cannot be asked is an error, and no connection is needed."""
    result = tracejury("--evaluator", "llm_judge", "--config", json.dumps(CRITERIA), "--show-prompt", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith("[system]\nYou score an answer")
    assert "[user]\n<data-" in result.stdout
    assert "Oslo" in result.stdout
    missing = tracejury("--evaluator", "llm_judge", "--config", json.dumps(CRITERIA), "--show-prompt", "-", stdin={})
    assert (missing.exit_code, "actualOutputs.output is missing" in missing.output) == (2, True)


def test_a_broken_judge_exits_with_2() -> None:
    """A refusal is a failure with its kind, and no stack trace."""
    with a_model(Status(401)) as server:
        result = judged("--judge-base-url", server.base_url, "--judge-model", "m")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["outcome"], document["score"]) == (2, "failure", None)
    assert document["failure"] == {"kind": "not_served", "message": "status 401: scripted"}


@pytest.mark.parametrize(
    "flags,kind,words",
    [
        ([], "bad_configuration", "needs a judge, and none is configured"),
        (["--judge-base-url", "nowhere", "--judge-model", "m"], "bad_configuration", "baseUrl must be http"),
        (
            ["--judge-base-url", "http://127.0.0.1:1/v1", "--judge-model", "m", "--judge-key-env", "NO_KEY_HERE"],
            "bad_configuration",
            "the variable NO_KEY_HERE is not set",
        ),
    ],
)
def test_a_judge_that_cannot_be_used_is_a_failure(flags: list[str], kind: str, words: str) -> None:
    """An error in the judge's options is reported before any request."""
    result = judged(*flags)
    failure = json.loads(result.stdout)["failure"]
    assert (result.exit_code, failure["kind"]) == (2, kind)
    assert words in failure["message"]


@pytest.mark.parametrize("flags", [["--judge-model", "m"], ["--judge-key-env", "K"], ["--judge-base-url", "http://x"]])
def test_half_a_judge_is_a_mistake(flags: list[str]) -> None:
    """A model without an address, or the reverse, is refused as usage."""
    result = judged(*flags)
    assert result.exit_code == 2
    assert "a judge needs --judge-base-url and --judge-model" in result.stderr


def test_lines_of_a_batch_may_have_judges_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`config.judge` comes before the flags, the flags before nothing, and answers keep the order of the lines."""
    monkeypatch.setenv("OTHER_KEY", "sk-other")

    def script(request: ModelRequest) -> Step:
        return Says({"score": 1.0 if request.body["model"] == "good" else 0.0, "reason": request.body["model"]})

    with a_model(script) as server:
        own = {"baseUrl": server.base_url, "model": "good", "protocol": "CHAT_COMPLETIONS", "keyEnv": "OTHER_KEY"}
        lines: list[dict[str, Any]] = [
            {"id": 1, "evaluator": "llm_judge", "config": CRITERIA | {"judge": own}, "case": CASE},
            {"id": 2, "evaluator": "llm_judge", "config": CRITERIA, "case": CASE},
            {"id": 3, "evaluator": "llm_judge", "config": CRITERIA | {"judge": {"model": "good"}}, "case": CASE},
            {
                "id": 4,
                "evaluator": "exact_match",
                "config": {"judge": own},
                "case": CASE | {"expectedOutputs": {"output": "Oslo"}},
            },
            {"id": 5, "evaluator": "llm_judge", "config": CRITERIA | {"judge": None}, "case": CASE},
        ]
        flags = ["--judge-base-url", server.base_url, "--judge-model", "bad"]
        result = tracejury("--batch", "-", *flags, stdin="\n".join(map(json.dumps, lines)))
    listed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["id"] for one in listed] == [1, 2, 3, 4, 5]
    assert [one["reason"] for one in listed[:2]] == ["good", "bad"]
    assert listed[2]["failure"]["message"] == "judge.baseUrl: is required"
    assert listed[3]["success"] is True
    assert "needs a judge" in listed[4]["failure"]["message"]
    assert {one.headers.get("authorization") for one in server.requests} == {"Bearer sk-other", None}
    assert result.exit_code == 2


def test_a_judge_changes_the_fingerprint() -> None:
    """Scores of two models are not comparable, and those of one are."""
    fingerprints = []
    with a_model({"score": 1, "reason": "r"}) as server:
        for model in ("a", "a", "b"):
            result = judged("--judge-base-url", server.base_url, "--judge-model", model)
            fingerprints.append(json.loads(result.stdout)["fingerprint"])
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_a_batch_of_many_judgements_shares_one_judge() -> None:
    """Forty lines are asked a few at a time, and each gets its own answer."""
    with a_model(lambda request: Says({"score": 1, "reason": request.user.split("case ")[1].split()[0]})) as server:
        lines = [
            {"id": n, "evaluator": "llm_judge", "config": CRITERIA, "case": {"actualOutputs": {"output": f"case {n} "}}}
            for n in range(40)
        ]
        flags = ["--judge-base-url", server.base_url, "--judge-model", "m"]
        result = tracejury("--batch", "-", *flags, stdin="\n".join(map(json.dumps, lines)))
    assert [(one["id"], one["reason"]) for one in map(json.loads, result.stdout.splitlines())] == [
        (n, str(n)) for n in range(40)
    ]
    assert result.exit_code == 0
