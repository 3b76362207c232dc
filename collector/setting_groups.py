"""Settings that are several values under one name: webhooks, redaction, workarounds."""

from typing import Annotated, Final, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic.functional_validators import AfterValidator

from collector.declared_fields import model_with
from collector.redaction.plan import RedactionPlan, make_plan
from rules.errors import BadPattern
from storage.alerting.webhook_options import WebhookOptions

AlertEvent: TypeAlias = Literal[
    "alert.opened", "alert.escalated", "alert.acknowledged", "alert.recovered", "RUN_REGRESSION"
]
EVENTS: Final[tuple[AlertEvent, ...]] = get_args(AlertEvent)
"""Events that a webhook may subscribe to."""


class WebhookSettings(model_with(WebhookOptions)):  # type: ignore[misc] # a base made at run time
    """A webhook for alerts. In place of `url`, `secret` and `previousSecret`, `urlEnv` etc. name a variable."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    project: Annotated[str, Field(min_length=1, description="The project; * for all.")]
    url: SecretStr | None = None
    urlEnv: str | None = None  # noqa: N815 - as it is written
    secret: SecretStr | None = None
    secretEnv: str | None = None  # noqa: N815 - as it is written
    previousSecret: SecretStr | None = None  # noqa: N815 - as it is written
    previousSecretEnv: str | None = None  # noqa: N815 - as it is written
    events: Annotated[tuple[AlertEvent, ...] | None, Field(min_length=1)] = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.url is None) is (self.urlEnv is None):
            raise ValueError("needs url or urlEnv")
        if None not in (self.secret, self.secretEnv) or None not in (self.previousSecret, self.previousSecretEnv):
            raise ValueError("set a secret or the variable that holds it, not both")
        return self


def _known_preset(name: str) -> str:
    make_plan(keys=(), patterns=(), presets=(name,))
    return name


def _pattern(text: str) -> str:
    try:
        make_plan(keys=(), patterns=(text,), presets=())
    except BadPattern as error:
        raise ValueError(f"a pattern {error}") from error
    return text


class Redaction(BaseModel):
    """Redaction of spans and log records before they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
        Field(max_length=100, description="Attributes whose values are replaced by `[redacted]`; * and ? as in globs."),
    ] = ()
    patterns: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern)], ...],
        Field(
            max_length=20,
            description="Regular expressions; their matches are replaced by [redacted] in names, messages, bodies and "
            "attribute values.",
        ),
    ] = ()
    presets: Annotated[
        tuple[Annotated[str, AfterValidator(_known_preset)], ...],
        Field(description="Built-in patterns whose matches are replaced by [redacted]: email, card, key."),
    ] = ()

    @property
    def plan(self) -> RedactionPlan:
        """Return the compiled plan."""
        return make_plan(keys=self.keys, patterns=self.patterns, presets=self.presets)


class WorkaroundSettings(BaseModel):
    """Workarounds for faults of dependencies. Each can be turned off."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    punch_holes: Annotated[
        bool, Field(description="Free blocks of the database file are given back to the file system after a sweep.")
    ] = True
    rewrite_row_groups: Annotated[
        bool, Field(description="Row groups with deleted rows are rewritten, which removes these from memory and disk.")
    ] = True
    watch_quack_clients: Annotated[
        bool, Field(description="A query over Quack is stopped when the kernel reports that its client is gone.")
    ] = True
    hide_pandas: Annotated[bool, Field(description="DuckDB does not look for pandas if it is not installed.")] = True
