"""A connection to a model as YAML and JSON, and its validation.

No message repeats a value: a key in the wrong field must not get into a log.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, Strict, ValidationError, model_validator

from evaluators.chat.connection import ModelConnection, Price, check_base_url, check_header, check_key
from evaluators.chat.settings import Effort, Temperature
from evaluators.chat.wire import Protocol
from evaluators.configuration import Amount, Count, Flag, Upper
from evaluators.model import NonBlank
from evaluators.wire import WireModel, unknown
from rules.rule import Budget

MAX_NAME: Final = 200
_OWN_VARIABLES: Final = "TRACEJURY_"
_MAX_A_DAY: Final = 10**12
_MAX_TOKENS: Final = 10**7
_MAX_HEADERS: Final = 20

Credential: TypeAlias = Literal["apiKey", "credentialRef"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionProblem:
    """A problem: its key, and a message that states the valid values."""

    key: str  # as in `limits.inFlight`; empty for the whole
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message


class BadText(Exception):
    """Refusal of a document; it names every problem, and repeats no values."""

    def __init__(self, problems: Sequence[ConnectionProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def _url(text: str) -> str:
    check_base_url(text)
    return text


def _key(secret: SecretStr) -> SecretStr:
    check_key(secret.get_secret_value())
    return secret


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("must be the name of an environment variable of the server, as in OPENAI_API_KEY")
    if name.upper().startswith(_OWN_VARIABLES):
        raise ValueError(f"must not be one of Tracejury's own variables ({_OWN_VARIABLES}…)")
    return name


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        check_header(name, value)
    return headers


def _header_refs(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name in headers:
        check_header(name, "value")
    return headers


_Headers: TypeAlias = Annotated[dict[str, str], Field(max_length=_MAX_HEADERS), AfterValidator(_headers)]
_HeaderRefs: TypeAlias = Annotated[
    dict[str, Annotated[str, AfterValidator(_variable)]],
    Field(max_length=_MAX_HEADERS),
    AfterValidator(_header_refs),
]
_Daily: TypeAlias = Annotated[Count, Field(le=_MAX_A_DAY)]


class PriceText(WireModel):
    """Price of a model."""

    input_usd_per_million: Annotated[Amount, Field(le=_MAX_A_DAY)]
    output_usd_per_million: Annotated[Amount, Field(le=_MAX_A_DAY)]


class LimitsText(WireModel):
    """Limits of the calls to a model."""

    in_flight: Annotated[int, Strict(), Field(ge=1, le=256)] = 8
    timeout_seconds: Annotated[float, Strict(), Field(gt=0, le=3600)] = 60.0
    attempts: Annotated[int, Strict(), Field(ge=1, le=10)] = 2
    requests_per_minute: Annotated[float, Strict(), Field(gt=0, le=1e6)] | None = None


class BudgetText(WireModel):
    """Budget of a day."""

    calls_per_day: _Daily | None = None
    tokens_per_day: _Daily | None = None
    usd_per_day: Annotated[Amount, Field(le=_MAX_A_DAY)] | None = None
    allow_unpriced: Flag = False

    def budget(self) -> Budget:
        """Convert the limits to a budget."""
        return Budget(**self.model_dump())


class ConnectionText(WireModel):
    """Text of a connection."""

    name: Annotated[NonBlank, Field(max_length=MAX_NAME)]
    base_url: Annotated[NonBlank, AfterValidator(_url)]
    model: Annotated[NonBlank, Field(max_length=MAX_NAME)]
    protocol: Annotated[Protocol, Upper] = "RESPONSES"
    api_key: Annotated[SecretStr, AfterValidator(_key)] | None = None
    credential_ref: Annotated[NonBlank, Field(max_length=MAX_NAME), AfterValidator(_variable)] | None = None
    price: PriceText | None = None
    limits: LimitsText = LimitsText()
    budget: BudgetText | None = None
    max_output_tokens: Annotated[int, Strict(), Field(ge=1, le=_MAX_TOKENS)] | None = None
    temperature: Temperature | None = None
    reasoning_effort: Effort | None = None
    headers: _Headers = Field(default_factory=dict)  # added to those of the protocol; not secret
    header_refs: _HeaderRefs = Field(default_factory=dict)  # header and the variable of the server that holds its value
    fallback: Annotated[NonBlank, Field(max_length=MAX_NAME)] | None = None  # used while this one is unavailable
    shared: Flag = False  # rules of tenants may use it, too

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.api_key is not None and self.credential_ref is not None:
            raise ValueError("apiKey, credentialRef: a connection has one of them at most")
        named = [name.lower() for name in (*self.headers, *self.header_refs)]
        if len(set(named)) < len(named):
            raise ValueError("headers, headerRefs: name each header once")
        if self.fallback is not None and self.fallback == self.name:
            raise ValueError("fallback: must be another connection")
        budget = self.budget
        if budget is not None and budget.usd_per_day is not None and self.price is None and not budget.allow_unpriced:
            raise ValueError("budget.usdPerDay: needs a price, or budget.allowUnpriced: true")
        return self

    def document(self) -> dict[str, Any]:
        """Return the connection as JSON, without the key and without default values."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"api_key"})

    def connection(self, key: str | None, secret_headers: Mapping[str, str] | None = None) -> ModelConnection:
        """Return the connection for the chat client, with the values of `headerRefs`.

        Raises:
            BadConnection: no request could be made with this key.
        """
        price = self.price
        return ModelConnection(
            base_url=self.base_url,
            model=self.model,
            protocol=self.protocol,
            key=key,
            price=None if price is None else Price(**price.model_dump()),
            timeout_s=self.limits.timeout_seconds,
            attempts=self.limits.attempts,
            in_flight=self.limits.in_flight,
            requests_per_minute=self.limits.requests_per_minute,
            max_output_tokens=self.max_output_tokens,
            temperature=self.temperature,
            reasoning_effort=self.reasoning_effort,
            headers=tuple(sorted({**self.headers, **(secret_headers or {})}.items())),
        )


def parse_connection(document: object) -> ConnectionText:
    """Parse the document of a connection.

    Raises:
        BadText: the document is not a valid connection.
    """
    try:
        return ConnectionText.model_validate(document)
    except ValidationError as error:
        raise BadText(_problems(error, ConnectionText)) from None


def parse_file_connections(documents: object) -> dict[str, ConnectionText]:
    """Parse the connections of a configuration file, by name.

    Raises:
        BadText: a connection is not valid, or contains a key.
    """
    if not isinstance(documents, Mapping):
        raise BadText([ConnectionProblem(key="", message="must be a mapping of names and connections")])
    connections, problems = dict[str, ConnectionText](), list[ConnectionProblem]()
    for name, document in documents.items():
        try:
            connections[str(name)] = _parse_named(str(name), document)
        except BadText as error:
            problems += [
                ConnectionProblem(key=f"{name}.{each.key}".rstrip("."), message=each.message) for each in error.problems
            ]
    if problems:
        raise BadText(problems)
    return connections


def _parse_named(name: str, document: object) -> ConnectionText:
    if not isinstance(document, Mapping):
        raise BadText([ConnectionProblem(key="", message="must be a mapping, as in {baseUrl: …, model: …}")])
    if {"apiKey", "api_key"} & document.keys():
        raise BadText(
            [ConnectionProblem(key="apiKey", message="is not taken from files; name a variable in credentialRef")]
        )
    if document.get("name", name) != name:
        raise BadText([ConnectionProblem(key="name", message="remove it: the key of the mapping is the name")])
    return parse_connection({**document, "name": name})


def parse_project_budgets(documents: object) -> dict[str, Budget]:
    """Parse the budgets of projects, by name. `*` gives each project that is not named a budget of its own.

    Raises:
        BadText: a budget is not valid.
    """
    if not isinstance(documents, Mapping):
        raise BadText([ConnectionProblem(key="", message="must be a mapping of projects and budgets")])
    budgets, problems = dict[str, Budget](), list[ConnectionProblem]()
    for name, document in documents.items():
        try:
            budgets[str(name)] = BudgetText.model_validate(document).budget()
        except ValidationError as error:
            problems += [
                ConnectionProblem(key=f"{name}.{each.key}".rstrip("."), message=each.message)
                for each in _problems(error, BudgetText)
            ]
    if problems:
        raise BadText(problems)
    return budgets


def _problems(error: ValidationError, shape: type[WireModel]) -> list[ConnectionProblem]:
    return [_problem(each, shape) for each in error.errors(include_url=False, include_input=False)]


def _problem(problem: Mapping[str, Any], shape: type[WireModel]) -> ConnectionProblem:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        names = [field.alias or name for name, field in shape.model_fields.items()]
        return ConnectionProblem(key=key, message=unknown(key, names) if len(problem["loc"]) == 1 else "unknown key")
    if problem["type"] == "missing":
        return ConnectionProblem(key=key, message="is required")
    if not key and problem["type"] != "value_error":
        return ConnectionProblem(key="", message="must be an object, as in {name: …, baseUrl: …, model: …}")
    message = re.sub(r"^(Value error, |Assertion failed, )", "", problem["msg"]).removeprefix(f"{key} ")
    if not key and ": " in message:  # a rule over several keys, which it names
        key, _, message = message.partition(": ")
    return ConnectionProblem(key=key, message=message[:1].lower() + message[1:])
