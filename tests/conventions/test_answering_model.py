"""The model that answered, where only the answer itself names it."""

import json
from typing import Any

import pytest

from tests.conventions.making import read

REQUESTED, ANSWERED = "gpt-5-mini", "gpt-5-mini-2026-09-09"
BY_OPENINFERENCE = {"openinference.span.kind": "LLM", "llm.model_name": REQUESTED}
BY_LANGSMITH = {
    "langsmith.span.kind": "llm",
    "gen_ai.request.model": REQUESTED,
    "langsmith.metadata.ls_model_name": REQUESTED,
}
BY_MLFLOW = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.llm.model": f'"{REQUESTED}"'}
PLACES = (
    (BY_OPENINFERENCE, "output.value"),
    (BY_LANGSMITH, "gen_ai.completion"),
    (BY_MLFLOW, "mlflow.spanOutputs"),
)
WORDS = {"role": "assistant", "content": "Hello."}


def of_langchain(metadata: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a result of LangChain with the metadata of a message."""
    kwargs = {"content": "Hello.", "type": "AIMessageChunk", "response_metadata": metadata}
    message = {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessageChunk"], "kwargs": kwargs}
    return {"generations": [[{"text": "Hello.", "generation_info": None, "message": message}]], **more}


ANSWERS = {
    "LangChain, streamed": of_langchain({"finish_reason": "stop", "model_name": ANSWERED}, llm_output=None),
    "LangChain, streamed in 2024": of_langchain({"finish_reason": "stopstop", "model_name": ANSWERED * 2}),
    "LangChain, without metadata of the message": of_langchain({}, llm_output={"model_name": ANSWERED}),
    "LangChain with Ollama": of_langchain({"model": ANSWERED, "done": True}),
    "LangChain as MLflow writes it": {
        "generations": [[{"text": "Hello.", "message": {**WORDS, "response_metadata": {"model_name": ANSWERED}}}]]
    },
    "a message of LangChain": {"type": "ai", "content": "Hello.", "response_metadata": {"model_name": ANSWERED}},
    "chat completions": {"choices": [{"message": WORDS}], "model": ANSWERED},
    "pieces of a stream": [{"choices": [{"delta": WORDS}], "model": ANSWERED}, {"choices": []}],
    "Anthropic": {"role": "assistant", "content": [{"type": "text", "text": "Hello."}], "model": ANSWERED, "usage": {}},
    "events of a response": [
        {"type": "response.created", "response": {"object": "response", "model": ANSWERED, "usage": None}}
    ],
    "Gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}}], "modelVersion": ANSWERED},
    "LlamaIndex": {"message": WORDS, "raw": {"choices": [{"message": WORDS}], "model": ANSWERED}},
    "smolagents with a call": {
        **WORDS,
        "raw": f"ChatCompletion(choices=[Choice(calls=[Function(arguments='{{}}', model='T')])], model='{ANSWERED}')",
    },
    "smolagents": {**WORDS, "raw": f"ChatCompletion(choices=[Choice(text=\"model='gpt-4'\")], model='{ANSWERED}')"},
}


@pytest.mark.parametrize("attributes, key", PLACES)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_the_model_is_the_one_that_the_answer_names(attributes: dict[str, str], key: str, answer: Any) -> None:
    """A raw answer names the model that gave it, which is not always the one that was asked."""
    reading = read(attributes | {key: json.dumps(answer)})
    assert (reading.model, reading.sources["model"]) == (ANSWERED, key)


@pytest.mark.parametrize("attributes, key", PLACES)
@pytest.mark.parametrize(
    "answer",
    [
        '{"model": "Corolla", "year": 2020}',
        '{"message": {"model": "T"}}',
        '{"model": "Tesla 3", "choices": ["red"]}',
        '{"model": "Tesla 3", "usage": "daily"}',
        '{"model": "Tesla 3", "eval_count": "three"}',
        '{"meta": {"model": "Tesla 3"}}',
        '{"data": [{"response_metadata": "none", "_meta": {"model": "Tesla 3"}}]}',
        "The model='T' is out.",
        "[{",
        "[[[[[[[1",
    ],
)
def test_an_answer_about_models_names_none(attributes: dict[str, str], key: str, answer: str) -> None:
    """JSON that a model wrote is not taken for a vendor's response, even if it has a key `model`."""
    assert read(attributes | {key: answer}).model == REQUESTED


def test_an_attribute_that_names_the_answering_model_wins() -> None:
    """If an attribute names the model of the response, the response is not searched for another one."""
    answer = json.dumps(ANSWERS["chat completions"])
    reading = read(BY_OPENINFERENCE | {"gen_ai.response.model": "gpt-5-mini-eu", "output.value": answer})
    assert reading.model == "gpt-5-mini-eu"


def test_a_chain_names_no_model() -> None:
    """Only for model calls is the model read from the output."""
    reading = read({"openinference.span.kind": "CHAIN", "output.value": json.dumps(ANSWERS["chat completions"])})
    assert reading.model is None
