"""Functions as judges of the program's evaluators, and metadata that holds nothing but a context."""

import json
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tracejury import Builtin, Dataset, Example, Experiment, evaluator

COMMAND = (str(Path(sys.executable).parent / "tracejury"), "evaluate", "--batch", "-")
PARTS = ["INPUT", "ACTUAL_OUTPUT"]


def verdict(prompt: str) -> str:
    """Judge by a word of the prompt."""
    return json.dumps({"reason": "it is so", "score": 1.0 if "Paris" in prompt else 0.0})


async def later(prompt: str) -> str:
    """Judge in an event loop."""
    assert threading.current_thread() is not threading.main_thread()
    return verdict(prompt)


def judged(judge: Any, *answers: str, **config: Any) -> Any:
    """Return the scores of answers by `llm_judge`."""
    dataset = Dataset(
        "d", [Example(inputs={"input": f"Capital? {each}"}, metadata={"context": each}) for each in answers]
    )
    builtin = Builtin(
        "llm_judge", {"criteria": "Is it right?", "evaluationParams": PARTS, "judge": judge} | config, command=COMMAND
    )
    result = Experiment("judged", dataset, lambda each: each.input, [builtin], parallelism=4).run()
    return [score for item in result.items for score in item.scores]


@pytest.mark.parametrize("judge", [verdict, later, partial(verdict)], ids=["sync", "async", "object"])
def test_a_function_judges(judge: Any) -> None:
    """Its reply is read as that of a model; it is called for each answer."""
    scores = judged(judge, "Paris", "Rome", "Paris again")
    assert [(score.value, score.reason, score.error) for score in scores] == [
        (1.0, "it is so", None),
        (0.0, "it is so", None),
        (1.0, "it is so", None),
    ]


def test_scores_of_one_version_of_a_function_are_comparable() -> None:
    """The fingerprint is that of its name and version, wherever it runs; another version is another judge."""
    first, again, second = (evaluator(name="mine", version=each)(partial(verdict)) for each in ("1", "1", "2"))
    (one,), (two,), (other,) = (judged(each, "Paris") for each in (first, again, second))
    assert (one.fingerprint, one.judge_model) == (two.fingerprint, "mine@1")
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("reply", [None, "no verdict", KeyError("quota")], ids=["none", "text", "raises"])
def test_a_function_that_gives_no_verdict_is_a_failed_evaluation(reply: Any) -> None:
    """The raised exception, or the type returned instead of a text, is in the message; other answers are judged."""

    def judge(prompt: str) -> Any:
        if "Rome" not in prompt:
            return verdict(prompt)
        if isinstance(reply, Exception):
            raise reply
        return reply

    good, bad = judged(judge, "Paris", "Rome")
    assert (good.value, bad.value) == (1.0, None)
    assert {"quota": "KeyError", "no verdict": ""}.get(str(reply).strip("'"), "NoneType") in bad.error


def test_the_server_calls_no_function() -> None:
    """The reason is said when the evaluator is made."""
    with pytest.raises(ValueError, match="the server cannot call a function"):
        Builtin("llm_judge", {"judge": verdict}, on="server")


def test_metadata_of_nothing_but_a_context_is_metadata() -> None:
    """A criterion about metadata is shown the context if there is nothing else; it was missing before."""
    prompts: list[str] = []

    def judge(prompt: str) -> str:
        prompts.append(prompt)
        return verdict(prompt)

    (score,) = judged(judge, "Paris", evaluationParams=["METADATA"])
    assert (score.value, "context" in prompts[0]) == (1.0, True)
