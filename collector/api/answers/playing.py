"""Answers of models in the playground."""

from pydantic import Field

from collector.api.answers.base import ApiAnswer, JsonObject


class MostDocument(ApiAnswer):
    """What something takes at most, as it is set aside."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = Field(description="Null: a model has no price.")


class PlaygroundUsage(ApiAnswer):
    """What a request took."""

    calls: int
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float


class PlaygroundFailure(ApiAnswer):
    """Why there is no answer: `over_budget`, `bad_configuration`, or what became of the request."""

    kind: str
    message: str


class PlaygroundAnswerDocument(ApiAnswer):
    """What one model answered, or why it did not."""

    connection_id: str
    connection: str | None = Field(description="Its name; null: there is none that can be asked.")
    model: str | None
    at_most: MostDocument
    message: JsonObject | None = Field(description="In the form of the messages of spans: role and parts.")
    is_cut_off: bool = Field(description="It ran out of tokens.")
    usage: PlaygroundUsage | None = Field(description="Null: nothing left this machine.")
    failure: PlaygroundFailure | None
    trace_id: str | None = Field(description="The trace that tells of it, which may take a second to be there.")
    not_stored: str | None = Field(description="Why there is no trace of it.")


class PlaygroundDocument(ApiAnswer):
    """The answers, in the order in which they were wanted."""

    at_most: MostDocument
    answers: list[PlaygroundAnswerDocument]
