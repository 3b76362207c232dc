"""What can be set, with its bounds and its default."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic.functional_validators import AfterValidator

from collector.connection_text import BadText, parse_file_connections, parse_project_budgets
from collector.conventions.own import OwnKeys
from collector.conventions.prices import price_table
from collector.redaction.plan import RedactionPlan, make_plan
from collector.setting_values import Address, ApiKey, Bytes, EncryptionKey, Headers, OtlpUrl, ResultsUrl, Size
from rules.errors import BadPattern

_MIB = 1 << 20


AlertEvent: TypeAlias = Literal["alert.opened", "alert.acknowledged", "alert.recovered", "RUN_REGRESSION"]
ALERT_EVENTS: Final[tuple[AlertEvent, ...]] = ("alert.opened", "alert.acknowledged", "alert.recovered")
"""What a webhook is told of that does not say."""


class BadSettings(Exception):
    """Settings that cannot be used; the message names each key and what would be right."""


def _keys(projects: dict[str, dict[str, tuple[str, ...]]]) -> dict[str, dict[str, tuple[str, ...]]]:
    OwnKeys(projects)  # which knows the fields
    return projects


def _prices(given: dict[str, dict[str, float]] | None) -> dict[str, dict[str, float]] | None:
    price_table(given)  # which knows what a price is
    return given


def _parsed_by(parse: Callable[[object], object]) -> AfterValidator:
    """Checks what is parsed again where it is used."""

    def check(documents: dict[str, Any]) -> dict[str, Any]:
        try:
            parse(documents)
        except BadText as error:
            raise ValueError(str(error)) from None
        return documents

    return AfterValidator(check)


class WebhookSettings(BaseModel):
    """A receiver of alerts. Of `url`, `secret` and `previousSecret`, the name of a variable that holds it will do."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    project: Annotated[str, Field(min_length=1, description="The project; * for all.")]
    url: SecretStr | None = None
    urlEnv: str | None = None  # noqa: N815 - as it is written
    secret: SecretStr | None = None
    secretEnv: str | None = None  # noqa: N815 - as it is written
    previousSecret: SecretStr | None = None  # noqa: N815 - as it is written
    previousSecretEnv: str | None = None  # noqa: N815 - as it is written
    enabled: bool = True
    events: Annotated[tuple[AlertEvent, ...], Field(min_length=1)] = ALERT_EVENTS
    template: Literal["json", "slack", "teams", "pagerduty"] = "json"
    rules: Annotated[tuple[str, ...] | None, Field(min_length=1, max_length=200)] = None
    severities: Annotated[tuple[Literal["info", "warning", "critical"], ...] | None, Field(min_length=1)] = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.url is None) is (self.urlEnv is None):
            raise ValueError("needs url or urlEnv")
        if None not in (self.secret, self.secretEnv) or None not in (self.previousSecret, self.previousSecretEnv):
            raise ValueError("a secret is written, or named by its variable, and not both")
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
    """What is taken out of spans and log records before they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...],
        Field(max_length=100, description="Attributes whose values are taken out; * and ? as in globs."),
    ] = ()
    patterns: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern)], ...],
        Field(max_length=20, description="Regular expressions of what is taken out of every text."),
    ] = ()
    presets: Annotated[
        tuple[Annotated[str, AfterValidator(_known_preset)], ...],
        Field(description="Shapes that are taken out of every text: email, card, key."),
    ] = ()

    @property
    def plan(self) -> RedactionPlan:
        """What is taken out, ready to be applied."""
        return make_plan(keys=self.keys, patterns=self.patterns, presets=self.presets)


class Settings(BaseModel):
    """Everything that can be set. Sizes are in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Annotated[Path, Field(description="The data directory.")] = Path("data")
    grpc: Annotated[Address, Field(description="Where OTLP over gRPC is taken.")] = "127.0.0.1:4317"
    otlp_http: Annotated[Address, Field(description="Where OTLP over HTTP is taken.")] = "127.0.0.1:4318"
    http: Annotated[Address, Field(description="Where the API listens.")] = "127.0.0.1:8080"
    quack: Annotated[
        Address | None, Field(description="Where DuckDB attaches over its own protocol, without TLS; null: nowhere.")
    ] = None
    max_body_bytes: Annotated[Bytes, Field(description="A request body may be this large as it was sent.")] = 64 * _MIB
    max_decompressed_bytes: Annotated[
        Bytes, Field(description="A request body may be this large after decompression.")
    ] = 64 * _MIB
    queue_bytes: Annotated[
        Bytes, Field(description="Request bodies held at the same time; above this, senders are told to wait.")
    ] = 32 * _MIB
    backlog_bytes: Annotated[
        Bytes,
        Field(description="Spans and logs that are durable, not committed; above this, senders are told to wait."),
    ] = 48 * _MIB
    commit_interval_ms: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description="Spans wait at most this long for their commit, and up to three times as long under load.",
        ),
    ] = 300
    retention_days: Annotated[
        int, Field(ge=1, le=36_500, description="A trace expires this long after its latest span came.")
    ] = 30
    project_retention_days: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=36_500)]],
        Field(description="The same for projects that differ: project, days."),
    ] = {}
    run_retention_days: Annotated[
        int | None, Field(ge=1, le=36_500, description="A run leaves this long after it ended; null: never.")
    ] = None
    max_bytes: Annotated[
        int | None,
        Field(ge=16 * _MIB, description="Above this size of the database, the oldest traces leave early; null: never."),
    ] = None
    sweep_interval_seconds: Annotated[
        float, Field(gt=0, le=7 * 86_400, description="Time between two sweeps, which delete what has expired.")
    ] = 3600
    duckdb_memory: Annotated[
        Size | None,
        Field(description="What DuckDB may hold in memory; null: a quarter of what the machine or its cgroup has."),
    ] = None
    duckdb_threads: Annotated[
        int | None, Field(ge=1, le=256, description="Threads that DuckDB may use; null: as many as processors.")
    ] = None
    attribute_keys: Annotated[
        dict[str, dict[str, tuple[str, ...]]],
        AfterValidator(_keys),
        Field(description="Attributes of your own that hold a field: project (* for all), field, keys."),
    ] = {}
    model_prices: Annotated[
        dict[str, dict[str, float]] | None,
        AfterValidator(_prices),
        Field(description="Prices of models over those shipped, in USD per million tokens; null: none at all."),
    ] = {}
    rules: Annotated[
        Path | None, Field(description="A folder of rules, one YAML file each; followed as it changes.")
    ] = None
    settle_after_root_seconds: Annotated[
        float,
        Field(ge=0, le=86_400, description="A trace has settled so long after its latest span, if its root ended."),
    ] = 10
    settle_quiet_seconds: Annotated[
        float, Field(ge=0, le=86_400, description="The same for a trace whose root has not ended.")
    ] = 180
    settle_longest_seconds: Annotated[
        float, Field(ge=0, le=604_800, description="A trace has settled so long after its first span, whatever comes.")
    ] = 3600
    session_idle_seconds: Annotated[
        float,
        Field(ge=1, le=604_800, description="A session is closed so long after its last span, until another comes."),
    ] = 900
    review_lease_seconds: Annotated[
        float, Field(ge=1, le=86_400, description="How long an entry of a review queue is kept for who was given it.")
    ] = 900
    job_attempts: Annotated[
        int, Field(ge=1, le=100, description="Attempts of an evaluation that an endpoint does not answer.")
    ] = 8
    retry_over_budget: Annotated[
        bool, Field(description="Evaluate on a new day what the budgets of the week before it left out.")
    ] = False
    code_judges: Annotated[int, Field(ge=1, le=256, description="Programs that judge at the same time.")] = 2
    encryption_key: Annotated[
        EncryptionKey | None,
        Field(description="What secrets are encrypted with: 32 bytes in hex or base64, or a passphrase."),
    ] = None
    llm_connections: Annotated[
        dict[str, Any],
        _parsed_by(parse_file_connections),
        Field(description="Connections to models that judge: name and what the API takes, without keys."),
    ] = {}
    project_budgets: Annotated[
        dict[str, Any],
        _parsed_by(parse_project_budgets),
        Field(description="What judging may cost in a day: project (* for every other one, each its own) and budget."),
    ] = {}
    judge_traces: Annotated[
        bool, Field(description="Store a span for each request to a judge; no rule ever matches one.")
    ] = False
    alert_webhooks: Annotated[tuple[WebhookSettings, ...], Field(description="Who is told of alerts.")] = ()
    webhook_private_hosts: Annotated[
        tuple[str, ...], Field(description="Private hosts that webhooks may go to: names, addresses, networks.")
    ] = ()
    webhook_rotation_hours: Annotated[
        float, Field(ge=0, le=8760, description="A webhook's secret is used so long after another one took its place.")
    ] = 24
    results_endpoint: Annotated[
        ResultsUrl | None,
        Field(description="Who is told of results: a URL for log records in OTLP, http(s) or grpc(s)."),
    ] = None
    results_headers: Annotated[
        Headers, Field(description="What goes with each such request: header, name of the variable that holds it.")
    ] = {}
    results_batch: Annotated[int, Field(ge=1, le=10_000, description="Results in one such request.")] = 512
    own_traces_endpoint: Annotated[
        OtlpUrl | None, Field(description="Who takes the server's own traces: a URL for spans in OTLP over HTTP.")
    ] = None
    own_traces_headers: Annotated[
        Headers, Field(description="What goes with each such request: header, name of the variable that holds it.")
    ] = {}
    sql_rows: Annotated[int, Field(ge=1, le=1_000_000, description="Rows that one SQL answer may have.")] = 10_000
    sql_seconds: Annotated[float, Field(gt=0, le=3600, description="Time that one SQL query may take.")] = 30
    sql_memory_bytes: Annotated[
        Bytes | None, Field(description="What SQL queries may take together of duckdb_memory; null: half of it.")
    ] = None
    sql_at_once: Annotated[
        int, Field(ge=1, le=64, description="SQL queries that run at the same time; others wait for a while.")
    ] = 2
    shutdown_seconds: Annotated[
        float, Field(gt=0, le=3600, description="Time for finishing requests and commits when stopping.")
    ] = 30
    api_key: Annotated[
        ApiKey | None,
        Field(description="The API key of the operator, who may do everything; the command line sends it."),
    ] = None
    reads: Annotated[
        str, Field(pattern="^(key|open)$", description="Whether reading takes a key, once there is any key.")
    ] = "key"
    insecure_open: Annotated[bool, Field(description="Listen beyond this machine although there is no API key.")] = (
        False
    )
    allowed_hosts: Annotated[
        tuple[str, ...], Field(description="Names under which the server may be called without a key.")
    ] = ()
    key_requests_per_second: Annotated[
        float | None, Field(gt=0, le=1e9, description="Export requests that one API key may send a second.")
    ] = None
    key_bytes_per_second: Annotated[
        float | None, Field(gt=0, le=1e12, description="Bytes of export requests that one API key may send a second.")
    ] = None
    audit_entries: Annotated[
        int, Field(ge=1000, le=100_000_000, description="Entries of the audit that are kept, the latest ones.")
    ] = 100_000
    tls_cert: Annotated[
        Path | None,
        Field(description="The certificate chain (PEM) of all addresses; they then take TLS only."),
    ] = None
    tls_key: Annotated[Path | None, Field(description="The key (PEM) of that certificate.")] = None
    redaction: Annotated[
        Redaction, Field(description="What is taken out of spans and log records before they are written.")
    ] = Redaction()
    cors_origins: Annotated[
        tuple[str, ...], Field(description="Origins whose pages may call the HTTP addresses; * for any.")
    ] = ()
    log_level: Annotated[
        str, Field(pattern="^(debug|info|warning|error)$", description="How much is logged to standard error.")
    ] = "info"
    log_format: Annotated[
        str, Field(pattern="^(text|json)$", description="Whether the log is lines of text or of JSON.")
    ] = "text"

    @property
    def own_keys(self) -> OwnKeys:
        """What of these says how spans are read."""
        return OwnKeys(self.attribute_keys, price_table(self.model_prices))

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key need each other")
        return self
