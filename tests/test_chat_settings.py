"""The configuration of a judge, and its effect on requests."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from collector.settings_loading import environment_variable
from evaluators.chat.settings import Judges, parse_judge
from evaluators.errors import BadConfiguration
from evaluators.judge_interface import PromptMessage
from tests.model_server import CHAT, RESPONSES, a_model
from tests.source_tree import ROOT

QUESTION = (PromptMessage(role="system", content="Judge."), PromptMessage(role="user", content="This."))


@pytest.mark.parametrize("protocol,path", [("CHAT_COMPLETIONS", CHAT), ("responses", RESPONSES), (None, RESPONSES)])
def test_a_configured_judge_is_asked(monkeypatch: pytest.MonkeyPatch, protocol: str | None, path: str) -> None:
    """Address, model, protocol and the key's variable are all that a judge needs; prices are optional."""
    monkeypatch.setenv("JUDGE_KEY", "sk-1")

    async def ask(base_url: str) -> tuple[str, float | None]:
        document: dict[str, Any] = {"baseUrl": base_url, "model": "judge-2", "keyEnv": "JUDGE_KEY"}
        document |= {"inputUsdPerMillion": 1.0, "outputUsdPerMillion": 5} | ({"protocol": protocol} if protocol else {})
        async with Judges(environment_variable) as judges:
            judge = judges.judge(document)
            reply = await judge(QUESTION, {"good": {"type": "boolean"}})
            assert reply.fields == {"good": True}
            return judge.model, reply.usage.cost_usd

    with a_model({"good": True}) as server:
        model, cost_usd = asyncio.run(ask(server.base_url))
    assert model == "judge-2"
    assert cost_usd == pytest.approx(0.0002)
    (request,) = server.requests
    assert (request.path, request.body["model"]) == (path, "judge-2")
    assert request.headers["authorization"] == "Bearer sk-1"


def test_equal_judges_share_their_connections() -> None:
    """However often a judge is named, its limits hold once."""

    async def names() -> int:
        async with Judges(environment_variable) as judges:
            for model in ("a", "b", "a"):
                judges.judge({"baseUrl": "http://127.0.0.1:1/v1", "model": model})
            return len(judges._models)

    assert asyncio.run(names()) == 2


@pytest.mark.parametrize(
    "document,words",
    [
        (None, "judge"),
        ({}, "judge.baseUrl: is required; judge.model: is required"),
        ({"baseURL": "http://x"}, "did you mean baseUrl"),
        ({"baseUrl": "http://x", "model": "m", "key": "sk-secret"}, "judge.key: unknown key"),
        ({"baseUrl": "http://x", "model": "m", "protocol": "GRPC"}, "judge.protocol"),
        ({"baseUrl": "http://x", "model": "m", "attempts": 0}, "judge.attempts"),
    ],
)
def test_a_judge_that_cannot_be_configured_is_refused_by_key(document: object, words: str) -> None:
    """Each wrong key is named, and a key that was put where its variable belongs is not shown."""
    with pytest.raises(BadConfiguration, match=words) as raised:
        parse_judge(document)
    assert "sk-secret" not in str(raised.value)


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"keyEnv": "NO_SUCH_VARIABLE"}, "the variable NO_SUCH_VARIABLE is not set"),
        ({"baseUrl": "x.example"}, "judge: baseUrl must be http"),
        ({"baseUrl": "http://me:pass@x.example"}, "no credentials"),
        ({"inputUsdPerMillion": 1.0}, "go together"),
        ({"keyEnv": "BAD_KEY"}, "the key must be"),
    ],
)
def test_a_connection_that_cannot_work_is_a_bad_configuration(
    monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, Any], words: str
) -> None:
    """A connection that no request could use is refused before one is made."""
    monkeypatch.setenv("BAD_KEY", "two words")
    settings = parse_judge({"baseUrl": "http://x.example", "model": "m", **changes})
    with pytest.raises(BadConfiguration, match=words) as raised:
        settings.connection(environment_variable)
    assert "two words" not in str(raised.value)


def test_the_openai_package_is_loaded_for_a_judge_only() -> None:
    """An evaluation that asks no model does not wait half a second for a client that it does not need."""
    program = "import sys, collector.evaluation.batch; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
