"""Tasks and judges made from a model in one line: functions, endpoints, and replies of libraries."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from tests.model_server import Says, a_model
from tracejury import Builtin, ChatCompletions, Dataset, Example, Experiment, Result, as_judge, rag_task, simple_task

COMMAND = (str(Path(sys.executable).parent / "tracejury"), "evaluate", "--batch", "-")
CASES = Dataset("capitals", [Example.of("Capital of Peru?", "Lima")])


def a_completion(prompt: str) -> ChatCompletion:
    """Answer as the API of chat completions does."""
    message = {"role": "assistant", "content": "Lima" if "Peru" in prompt else "?"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return ChatCompletion.model_validate(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    )


def an_anthropic_message(_: str) -> dict[str, Any]:
    """Answer as the API of Anthropic does, with a cache."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0, "output_tokens": 3}
    content = [{"type": "text", "text": "Lima"}]
    return {"type": "message", "role": "assistant", "stop_reason": "end_turn", "content": content, "usage": usage}


class AChain:
    """An object with the interface of LangChain's chains."""

    model_name = "a chain"

    async def ainvoke(self, prompt: str) -> SimpleNamespace:
        """Answer with a message of LangChain."""
        assert prompt == "Capital of Peru?"
        return SimpleNamespace(type="ai", content="Lima", usage_metadata={"input_tokens": 12, "output_tokens": 3})


class AnAgent:
    """An object with the interface of pydantic-ai's agents."""

    async def run(self, prompt: str) -> SimpleNamespace:
        """Answer with a result of a run."""
        assert prompt == "Capital of Peru?"
        usage = SimpleNamespace(input_tokens=12, output_tokens=3)
        return SimpleNamespace(output="Lima", all_messages=list, usage=lambda: usage)


def result_of(task: Any) -> Result:
    """Return what an experiment with the task comes to."""
    return Experiment("models", CASES, task, [Builtin("exact_match", command=COMMAND)]).run()


@pytest.mark.parametrize(
    "model",
    [a_completion, an_anthropic_message, AChain(), AnAgent()],
    ids=["openai", "anthropic", "chain", "agent"],
)
def test_a_model_is_a_task(model: Any) -> None:
    """A reply is the output, and the item has the tokens and the cost."""
    (item,) = result_of(simple_task(model, input_usd=10, output_usd=100)).items
    assert (item.outputs, item.passed) == ({"output": "Lima"}, True)
    assert item.measured is not None
    assert (item.measured.tokens_in, item.measured.tokens_out, item.measured.cost_usd) == (12, 3, 0.00042)


def test_an_endpoint_is_a_task() -> None:
    """With its own prices; the output may have another name."""
    with a_model(Says("Lima")) as model:
        endpoint = ChatCompletions(model.base_url, "m", input_usd=10, output_usd=100)
        (item,) = result_of(simple_task(endpoint, "answer")).items
    assert item.outputs == {"answer": "Lima"}
    assert item.measured is not None
    assert (item.measured.tokens_in, item.measured.cost_usd) == (100, 0.003)


@pytest.mark.parametrize(
    "message",
    [
        ("Lima", ["Peru: Lima"]),
        {"answer": "Lima", "context": [SimpleNamespace(page_content="Peru: Lima")]},
        {"result": "Lima", "source_documents": [{"text": "Peru: Lima"}]},
    ],
)
def test_a_chain_is_a_task_with_context(message: Any) -> None:
    """Retrieved documents are the context that evaluators read."""
    (item,) = result_of(rag_task(lambda _: message)).items
    assert item.outputs == {"output": "Lima", "context": ["Peru: Lima"]}


@pytest.mark.parametrize("message", ["Lima", None, {"answer": "Lima"}])
def test_a_chain_without_documents_is_an_error_of_the_item(message: Any) -> None:
    """The context of a text would look as if nothing had been retrieved."""
    (item,) = result_of(rag_task(lambda _: message)).items
    assert item.outcome == "error"
    assert "a chain returns (reply, documents)" in str(item.error)


def test_a_reply_without_a_text_is_an_error_of_the_item() -> None:
    """Such as a call of an unknown tool."""
    (item,) = result_of(simple_task(lambda _: {"choices": []})).items
    assert "the reply has no text" in str(item.error)


def test_a_model_is_a_judge_of_its_own_name() -> None:
    """Verdicts of a model have its name in their fingerprint, and its words as the reason."""
    with a_model(Says({"score": 1.0, "reason": "it is so"})) as model:
        judge = as_judge(ChatCompletions(model.base_url, "strict"))
        config = {"criteria": "Is it right?", "judge": judge}
        builtin = Builtin("llm_judge", config, command=COMMAND)
        (item,) = Experiment("judged", CASES, lambda _: "Lima", [builtin]).run().items
    (score,) = item.scores
    assert (score.value, score.reason, score.judge_model) == (1.0, "it is so", "strict")


def test_a_function_that_answers_is_a_judge_by_its_name() -> None:
    """A reply of a library will do as a text does."""

    def answer(_: str) -> ChatCompletion:
        completion = a_completion("")
        completion.choices[0].message.content = json.dumps({"score": 0.0, "reason": "no"})
        return completion

    builtin = Builtin("llm_judge", {"criteria": "Is it right?", "judge": as_judge(answer)}, command=COMMAND)
    (item,) = Experiment("judged", CASES, lambda _: "Lima", [builtin]).run().items
    assert (item.scores[0].value, item.scores[0].judge_model) == (0.0, named_of(answer))


def named_of(function: Any) -> str:
    """Return what a judge is called that is a function."""
    return str(function.__name__)


def test_what_is_no_model_is_refused_when_the_task_is_made() -> None:
    """And not at its first item."""
    for make in (simple_task, rag_task, as_judge):
        with pytest.raises(TypeError, match="a model is a function"):
            make("gpt-5")
