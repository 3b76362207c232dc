"""Settings of judges, `{baseUrl, model, protocol, keyEnv, …}`, and the judges made from them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import Field, Strict, ValidationError

from evaluators.chat.connection import BadConnection, ModelConnection, Price
from evaluators.chat.wire import Protocol
from evaluators.configuration import Amount, Upper
from evaluators.errors import BadConfiguration
from evaluators.model import NonBlank
from evaluators.wire import WireModel, explain

if TYPE_CHECKING:
    from evaluators.chat.client import ChatModel
    from evaluators.chat.judge import ChatJudge


Temperature: TypeAlias = Annotated[float, Strict(), Field(ge=0, le=2, allow_inf_nan=False)]
Effort: TypeAlias = Annotated[str, Field(pattern="^[a-z]{1,20}$")]
"""Reasoning effort, as the endpoint names it: minimal, low, medium, high, and others to come."""


class JudgeSettings(WireModel):
    """Settings of the judge's model. They never contain the key: `keyEnv` names its variable."""

    base_url: NonBlank
    model: NonBlank
    protocol: Annotated[Protocol, Upper] = "RESPONSES"
    key_env: NonBlank | None = None
    time_limit_seconds: Annotated[float, Strict(), Field(gt=0, le=3600)] = 60.0
    attempts: Annotated[int, Strict(), Field(ge=1, le=10)] = 3
    in_flight: Annotated[int, Strict(), Field(ge=1, le=256)] = 8
    input_usd_per_million: Amount | None = None
    output_usd_per_million: Amount | None = None
    temperature: Temperature | None = None
    reasoning_effort: Effort | None = None
    max_output_tokens: Annotated[int, Strict(), Field(ge=1, le=10**7)] | None = None
    headers: Mapping[str, str] = Field(default_factory=dict)

    def connection(self, variable: Callable[[str], str | None]) -> ModelConnection:
        """Return the settings of the chat client; `variable` reads the environment.

        Raises:
            BadConfiguration: the key's variable is not set, or no request could be made with these settings.

        """
        key = None if self.key_env is None else variable(self.key_env)
        if self.key_env is not None and not key:
            raise BadConfiguration(f"judge.keyEnv: the variable {self.key_env} is not set")
        try:
            return ModelConnection(
                base_url=self.base_url,
                model=self.model,
                protocol=self.protocol,
                key=key,
                price=self._price(),
                timeout_s=self.time_limit_seconds,
                attempts=self.attempts,
                in_flight=self.in_flight,
                temperature=self.temperature,
                reasoning_effort=self.reasoning_effort,
                max_output_tokens=self.max_output_tokens,
                headers=tuple(sorted(self.headers.items())),
            )
        except BadConnection as error:
            raise BadConfiguration(f"judge: {error}") from None

    def _price(self) -> Price | None:
        of_input, of_output = self.input_usd_per_million, self.output_usd_per_million
        if of_input is None and of_output is None:
            return None
        if of_input is None or of_output is None:
            raise BadConfiguration("judge: inputUsdPerMillion and outputUsdPerMillion go together")
        return Price(input_usd_per_million=of_input, output_usd_per_million=of_output)


def parse_judge(document: object) -> JudgeSettings:
    """Return the settings in a JSON document.

    Raises:
        BadConfiguration: the document is not valid settings; every wrong key is named.

    """
    try:
        return JudgeSettings.model_validate(document)
    except ValidationError as error:
        raise BadConfiguration(explain(error, JudgeSettings, root="judge")) from None


class Judges(AbstractAsyncContextManager["Judges"]):
    """One chat model for each connection, so that limits and open connections are shared; leaving closes them all."""

    def __init__(self, variable: Callable[[str], str | None]) -> None:
        self._variable = variable
        self._models: dict[ModelConnection, ChatModel] = {}

    async def __aenter__(self) -> Self:
        """Do nothing."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every judge's connections."""
        for model in self._models.values():
            await model.close()
        self._models.clear()

    def judge(self, document: Any) -> "ChatJudge":  # noqa: ANN401 - what a configuration says
        """Return the judge that a configuration describes.

        Raises:
            BadConfiguration: the document does not describe a judge.

        """
        # Imported on first use: most evaluations ask no judge.
        from evaluators.chat.client import ChatModel  # noqa: PLC0415 - see above
        from evaluators.chat.judge import ChatJudge  # noqa: PLC0415 - see above

        connection = parse_judge(document).connection(self._variable)
        model = self._models.get(connection)
        if model is None:
            model = self._models[connection] = ChatModel(connection)
        return ChatJudge(model)
