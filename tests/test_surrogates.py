"""Half a surrogate pair, which JSON can spell and UTF-8 cannot carry, is an error of the client or is replaced."""

import json
from collections.abc import Iterator

import pytest

from tests.model_server import Says, Sends, Status, Step
from tests.offline import an_offline_server
from tests.playing import Played, a_played_server

CALL = {"id": "c\ud800", "type": "function", "function": {"name": "n\ud800", "arguments": '{"k\\ud800": "\\ud800"}'}}
CHAT = {
    "model": "m\ud800",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}
ERROR = {"error": {"message": "half \ud800", "type": "t\ud800"}}


@pytest.fixture(name="played", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Yield one server with models for all."""
    with a_played_server(tmp_path_factory.mktemp("played") / "data") as server:
        yield server


@pytest.mark.parametrize("connection", [0, 1])
@pytest.mark.parametrize(
    "step",
    [Says("half \ud800 of a pair"), Sends(json.dumps(CHAT).encode()), Status(400, json.dumps(ERROR).encode())],
    ids=["text", "calls", "error"],
)
def test_a_reply_with_half_a_pair_is_answered(played: Played, connection: int, step: Step) -> None:
    """Whatever part of its reply or error has half a pair, the playground answers with 200."""
    played.connect()
    model = played.models[connection]
    before, model.script = model.script, lambda _: step
    try:
        answer = played.play("two" if connection else "one")
    finally:
        model.script = before
    assert (answer.status_code, "\\ud800" in answer.text) == (200, False)


@pytest.mark.parametrize("field", ["inputSchema", "expectedOutputSchema"])
def test_a_schema_with_half_a_pair_is_refused(tmp_path_factory: pytest.TempPathFactory, field: str) -> None:
    """A dataset takes no schema whose text UTF-8 cannot carry, and says so."""
    with an_offline_server(tmp_path_factory.mktemp("schemas") / "data") as api:
        body = json.dumps({"name": "halves", field: {"type": "object", "title": "x\ud800"}})
        answer = api.answer("POST", "datasets", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, "surrogate" in answer.text) == (400, True)
