"""Evaluators with a judge that is a model server on this machine."""

import asyncio
from collections.abc import Mapping
from typing import Any

from evaluators.case import parse_case
from evaluators.chat.client import ChatModel
from evaluators.chat.connection import ModelConnection, Price
from evaluators.chat.judge import ChatJudge
from evaluators.evaluator import run
from evaluators.outcome import Failure, Outcome, Verdict
from evaluators.registry import build
from tests.model_server import ModelRequest, a_model

PRICE = Price(input_usd_per_million=1, output_usd_per_million=1)


def judged(
    name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], script: object
) -> tuple[Outcome, list[ModelRequest]]:
    """Evaluate the case with a scripted model; return the outcome and the requests that the model got."""

    async def judge_once(base_url: str) -> Outcome:
        connection = ModelConnection(
            base_url=base_url, model="judge-1", protocol="CHAT_COMPLETIONS", price=PRICE, attempts=1
        )
        async with ChatModel(connection) as model:
            return await run(build(name, configuration, ChatJudge(model)), parse_case(case))

    with a_model(script) as server:
        return asyncio.run(judge_once(server.base_url)), server.requests


def verdict_of(name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], script: object) -> Verdict:
    """Return the outcome, which must be a verdict."""
    outcome, _ = judged(name, configuration, case, script)
    assert isinstance(outcome, Verdict), outcome
    return outcome


def failure_of(name: str, configuration: Mapping[str, Any], case: Mapping[str, Any], script: object) -> Failure:
    """Return the outcome, which must be a failure."""
    outcome, _ = judged(name, configuration, case, script)
    assert isinstance(outcome, Failure), outcome
    return outcome


def without_judge(name: str, configuration: Mapping[str, Any], case: Mapping[str, Any]) -> Outcome:
    """Evaluate the case with no judge configured."""
    return asyncio.run(run(build(name, configuration), parse_case(case)))
