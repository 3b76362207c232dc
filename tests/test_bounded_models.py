"""A model that plays a user: its answers are bounded in bytes and in time, whatever it sends."""

import asyncio

import pytest

from tests.model_server import Says, Streams, a_model
from tracejury.chat_model import ChatCompletions, ChatQuestion, ChatReply, NoReply


def ask(base_url: str, text: str = "?", timeout_s: float = 50.0) -> ChatReply:
    """Send one message to the model, without retries."""
    model = ChatCompletions(base_url, "m", attempts=1, timeout_s=timeout_s)
    return asyncio.run(model.ask(ChatQuestion([{"role": "user", "content": text}]), lambda: None))


def test_a_long_answer_is_refused_while_it_comes() -> None:
    """Of an answer without an end no more is read than may be one."""
    with a_model(Streams(chunk=b"x" * 65_536)) as model, pytest.raises(NoReply, match="more than 1 MiB"):
        ask(model.base_url)


def test_an_answer_that_drips_is_late() -> None:
    """A byte now and then does not extend the time limit, which is that of the whole answer."""
    with a_model(Streams(chunk=b" ", pause_s=0.05)) as model, pytest.raises(NoReply, match=r"no answer within 0\.5 s"):
        ask(model.base_url, timeout_s=0.5)


def test_half_a_surrogate_pair_is_sent() -> None:
    """JSON can spell it, and the model is asked."""
    with a_model(Says("yes")) as model:
        assert ask(model.base_url, "x\ud800").text == "yes"
        assert model.requests[0].body["messages"][0]["content"] == "x\ud800"
