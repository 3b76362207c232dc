"""What can be set, with its bounds and its default.

The table in docs/configuration.md and deploy/config.example.yaml are made of the descriptions here, whose links are
those of docs/: `pytest tests/test_settings_reference.py --update-golden`.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collector.conventions.own import OwnKeys
from collector.conventions.prices import price_table
from collector.setting_groups import Redaction, WebhookSettings, WorkaroundSettings
from collector.setting_values import (
    Address,
    ApiKey,
    AttributeKeys,
    BudgetDocuments,
    Bytes,
    ConnectionDocuments,
    DropScopes,
    EncryptionKey,
    Headers,
    ModelPrices,
    Network,
    OtlpUrl,
    PathPrefix,
    ResultsUrl,
    Size,
)

_MIB = 1 << 20


class BadSettings(Exception):
    """Refusal of settings; the message names each key and what would be right."""


class Settings(BaseModel):
    """All settings. Sizes are in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Annotated[Path, Field(description="the data directory: database, spool, lock; made if it is not there")] = (
        Path("data")
    )
    grpc: Annotated[Address, Field(description="where OTLP over gRPC is taken; port 0 picks one")] = "127.0.0.1:4317"
    otlp_http: Annotated[Address, Field(description="where OTLP over HTTP is taken")] = "127.0.0.1:4318"
    http: Annotated[Address, Field(description="where the API listens")] = "127.0.0.1:8080"
    quack: Annotated[
        Address | None,
        Field(
            description="where [DuckDB attaches](dashboards.md#duckdb-attaches) over its own protocol, without TLS",
            examples=["127.0.0.1:9494"],
        ),
    ] = None
    max_connections: Annotated[
        int,
        Field(
            ge=16,
            le=100_000,
            description="[connections](doors.md#connections) that one listener has open; fewer if the limit of open"
            " files is low. For one more, the one that is idle longest is closed",
        ),
    ] = 1000
    max_connections_per_address: Annotated[
        int,
        Field(ge=4, le=100_000, description="of them, those from one address, unless it is in `trusted_proxies`"),
    ] = 250
    first_byte_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="time from a connection to its first request, with a TLS handshake")
    ] = 10
    header_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="time from the first byte of a request to the end of its header")
    ] = 20
    max_header_bytes: Annotated[
        int,
        Field(ge=4096, le=16 * _MIB, description="a request's header with its URL; over gRPC its metadata"),
    ] = 64 << 10
    idle_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description="time that a connection is kept between requests; a request body or a reader of an answer that"
            " makes no progress for so long is given up. Longer than the minute of common load balancers",
        ),
    ] = 75
    max_body_bytes: Annotated[
        int,
        Field(  # gRPC and protobuf count in 31 bits
            ge=1024, le=2**31 - 1, description="a request body as it was sent; over gRPC also its size decompressed"
        ),
    ] = 64 * _MIB
    max_decompressed_bytes: Annotated[Bytes, Field(description="a request body over HTTP after decompression")] = (
        64 * _MIB
    )
    queue_bytes: Annotated[
        Bytes,
        Field(
            description="request bodies held at one time; above this, clients are asked to wait. One client (an API"
            " key, or an address where no key is needed) leaves a quarter to others"
        ),
    ] = 32 * _MIB
    backlog_bytes: Annotated[
        Bytes,
        Field(
            description="spans and log records that are durable but not committed yet; above this, clients are asked"
            " to wait. One client leaves a quarter to others, as above"
        ),
    ] = 48 * _MIB
    answer_bytes: Annotated[
        int,
        Field(
            ge=16 * _MIB,
            le=1 << 40,
            description="[answers](doors.md#answers) over HTTP that clients have not read yet; above this, requests get"
            " 503. One client leaves a quarter to others, as above",
        ),
    ] = 128 * _MIB
    commit_interval_ms: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description="spans wait at most this long for their commit, and three times as long while they keep coming",
        ),
    ] = 300
    retention_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="a trace expires this long after its latest span came, and leaves with the next sweep",
        ),
    ] = 30
    project_retention_days: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=36_500)]],
        Field(
            description="`retention_days` of projects that differ; it counts for spans that come from then on",
            examples=["{shop: 90, lab: 7}"],
        ),
    ] = {}
    run_retention_days: Annotated[
        int | None,
        Field(ge=1, le=36_500, description="a [run](experiments.md) leaves this long after it ended; none: never"),
    ] = None
    max_bytes: Annotated[
        int | None,
        Field(
            ge=16 * _MIB,
            le=1 << 50,
            description="above this size of the database, the oldest traces leave early: [retention](retention.md)",
        ),
    ] = None
    sweep_interval_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=7 * 86_400,
            description="time between two sweeps, which delete what has expired and give the room back",
        ),
    ] = 3600
    sweep_share: Annotated[
        float,
        Field(
            ge=0.001,
            le=1,
            description="share of what is stored that a sweep may delete because of its age; more stays"
            " until [`tracejury sweep --yes`](retention.md#a-clock-that-is-wrong); 1: any",
        ),
    ] = 0.5
    duckdb_memory: Annotated[
        Size | None,
        Field(
            description="what DuckDB may hold in memory; none: a quarter of what the machine or its cgroup has, 256 MiB"
            " at least and 16 GiB at most. Opening the file may take more for a moment, and spans of more than 100 kB"
            " take more for longer (`memory_raised` in the [log](operations.md))",
            examples=["512MB"],
        ),
    ] = None
    duckdb_threads: Annotated[
        int | None,
        Field(
            ge=1,
            le=256,
            description="threads that DuckDB may use; none: as many as there are processors, 16 at most. Those of"
            " questions stand back behind ingest",
        ),
    ] = None
    attribute_keys: Annotated[
        AttributeKeys,
        Field(
            description="attributes of your own that hold a field: project (`*` for all), [field](reading.md), keys;"
            " the first that holds something wins",
            examples=['{"*": {session_id: [my.session]}, shop: {input: [shop.question], output: [shop.answer]}}'],
        ),
    ] = {}
    drop_scopes: Annotated[
        DropScopes,
        Field(
            description="instrumentation scopes whose spans are accepted and [dropped](programs.md#sent-twice): project"
            " (`*` for all), names of scopes, with a version behind a space if only that is meant; a `*` at the end"
            " stands for anything",
            examples=['{"*": [com.anthropic.sdk.python], shop: [opentelemetry.instrumentation.*, "ai 6.*"]}'],
        ),
    ] = {}
    model_prices: Annotated[
        ModelPrices,
        Field(
            description="[prices of models](reading.md#cost) over those that are shipped, in USD per million tokens;"
            " `null`: no cost is computed",
            examples=["{my-model: {input: 2, cached: 0.5, output: 8, reasoning: 8}, other: {input: 0.59, output: 1}}"],
        ),
    ] = {}
    rules: Annotated[
        Path | None, Field(description="a folder of [rules](rules.md), one YAML file each; followed as it changes")
    ] = None
    settle_after_root_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=86_400,
            description="a trace has [settled](rules.md#what-becomes-of-a-span-or-a-trace) this long after its latest"
            " span, if its root has ended",
        ),
    ] = 10
    settle_quiet_seconds: Annotated[
        float,
        Field(ge=0, le=86_400, description="a trace whose root is open has settled this long after its latest span"),
    ] = 180
    settle_missing_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=86_400,
            description="a trace that an [item of a run](experiments.md#evaluators-of-the-server) names, and of which"
            " nothing has arrived, is waited for this long after the end of the run; longer if a collector in between"
            " holds traces back, as to sample whole ones",
        ),
    ] = 30
    settle_longest_seconds: Annotated[
        float, Field(ge=0, le=604_800, description="a trace has settled this long after its first span, whatever comes")
    ] = 3600
    session_idle_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=604_800,
            description="a [session](sessions.md) is `closed` this long after its last span started or ended,"
            " and `open` again when another trace of it comes; [rules about sessions](rules.md#sessions) judge it"
            " so long after its last span came",
        ),
    ] = 900
    review_lease_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description="an entry of a [review queue](review.md#queues) is kept this long for whoever was given it",
        ),
    ] = 900
    job_attempts: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="attempts of an evaluation that the judge's endpoint does not answer, before it has"
            " [failed](evaluation.md#attempts)",
        ),
    ] = 8
    retry_over_budget: Annotated[
        bool,
        Field(
            description="evaluate on a new day, from 00:01 UTC, what [budgets](connections.md#budgets) left out in the"
            " seven days before it; it comes before what is new, and is paid from the budgets of the new day"
        ),
    ] = False
    code_judges: Annotated[int, Field(ge=1, le=256, description="programs that judge at one time")] = 2
    encryption_key: Annotated[
        EncryptionKey | None,
        Field(
            description="what [keys of connections](connections.md#keys) are encrypted with: 32 bytes as hexadecimal"
            " digits or base64, or a passphrase of at least 12 characters. Better kept out of the file, in the"
            " variable. None: `encryption.key` of the data directory, which the first start makes"
        ),
    ] = None
    llm_connections: Annotated[
        ConnectionDocuments,
        Field(
            description="[connections](connections.md) to models that judge, by name, without keys; `credentialRef`"
            " names the variable that holds one",
            examples=[
                (
                    '{default: {baseUrl: "https://api.openai.com/v1", model: gpt-5-mini, credentialRef: OPENAI_API_KEY,'
                    " price: {inputUsdPerMillion: 0.25, outputUsdPerMillion: 2}, budget: {usdPerDay: 5}}}"
                )
            ],
        ),
    ] = {}
    project_budgets: Annotated[
        BudgetDocuments,
        Field(
            description="[what judging may cost](connections.md#budgets) in a day: project (`*` for each other one,"
            " each its own) and budget",
            examples=['{"*": {callsPerDay: 1000}, shop: {usdPerDay: 2.5}}'],
        ),
    ] = {}
    judge_traces: Annotated[
        bool,
        Field(
            description="store a span for each request to a judge; [no rule matches one](connections.md#no-loops)",
        ),
    ] = False
    alert_webhooks: Annotated[
        tuple[WebhookSettings, ...],
        Field(
            description="receivers of alerts: [webhooks](webhooks.md)",
            examples=[
                '[{project: shop, url: "https://hooks.example.org/tracejury", secretEnv: SHOP_HOOK_SECRET}]',
                '[{project: "*", urlEnv: SLACK_HOOK_URL, template: slack, events: [alert.opened, alert.recovered]}]',
            ],
        ),
    ] = ()
    webhook_private_hosts: Annotated[
        tuple[str, ...],
        Field(
            description="hosts at private addresses that webhooks, and [connections of"
            " tenants](connections.md#tenants), may go to: names, addresses, networks",
            examples=["[hooks.internal, 10.0.0.0/8]"],
        ),
    ] = ()
    webhook_rotation_hours: Annotated[
        float,
        Field(ge=0, le=8760, description="a webhook's secret is used as well so long after another one took its place"),
    ] = 24
    results_endpoint: Annotated[
        ResultsUrl | None,
        Field(
            description="receiver of [results](scores.md#scores-out): the URL that takes log records in OTLP, over"
            " HTTP or gRPC",
            examples=["https://collector.example.com/v1/logs", "grpcs://collector.example.com:4317"],
        ),
    ] = None
    results_headers: Annotated[
        Headers,
        Field(
            description="what goes with each such request: header, and the name of the variable that holds its value",
            examples=["{authorization: RESULTS_AUTHORIZATION}"],
        ),
    ] = {}
    results_batch: Annotated[int, Field(ge=1, le=10_000, description="results in one such request")] = 512
    own_traces_endpoint: Annotated[
        OtlpUrl | None,
        Field(
            description="who takes the [server's own traces](operations.md): the URL for spans in OTLP over HTTP",
            examples=["https://collector.example.com/v1/traces"],
        ),
    ] = None
    own_traces_headers: Annotated[
        Headers, Field(description="what goes with each such request, as in `results_headers`")
    ] = {}
    sql_rows: Annotated[int, Field(ge=1, le=1_000_000, description="rows that one SQL answer may have")] = 10_000
    sql_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="time that one SQL query may take; it ends at most 5 s later")
    ] = 30
    sql_memory_bytes: Annotated[
        Bytes | None,
        Field(
            description="what SQL queries may take together of `duckdb_memory`; none: half of it. Above this, those"
            " that run are stopped. One that runs in a process of its own has this over `sql_at_once`, 32 MiB at least"
        ),
    ] = None
    sql_at_once: Annotated[
        int,
        Field(
            ge=1,
            le=64,
            description="SQL queries that run at one time; another waits for as long as `sql_seconds`, and is told to"
            " come again. One key leaves one place to others, and of more keys than places the one with the fewest"
            " statements goes first",
        ),
    ] = 2
    shutdown_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=3600,
            description="time for stopping: half of it for the requests under way, half for the commits after them",
        ),
    ] = 30
    api_key: Annotated[
        ApiKey | None,
        Field(
            description="the key of the operator, who may do everything; 16 to 200 characters. The command line sends"
            " what the variable holds. Better kept out of the file. [Access](access.md)"
        ),
    ] = None
    reads: Annotated[
        str,
        Field(pattern="^(key|open)$", description="`open` lets clients without a key read the data of no tenant"),
    ] = "key"
    insecure_open: Annotated[
        bool,
        Field(
            description="listen beyond this machine although there is no key, so that anyone may read and write"
            " everything"
        ),
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        Field(description="names under which the server may be called without a key, besides those of this machine"),
    ] = ()
    trusted_proxies: Annotated[
        tuple[Network, ...],
        Field(
            description="addresses and networks of [proxies in front](access.md#proxies), whose `X-Forwarded-For` and"
            " `X-Forwarded-Proto` count; without one, a client's address is that of its connection, and all behind a"
            " proxy that send no key [count as one client](access.md#proxies)",
            examples=["[10.0.0.7, 10.1.0.0/16]"],
        ),
    ] = ()
    path_prefix: Annotated[
        PathPrefix,
        Field(
            description="the path under which [a proxy in front](access.md#under-a-path) offers the server; none: `/`",
            examples=["/tools/tracejury"],
        ),
    ] = ""
    key_requests_per_second: Annotated[
        float | None,
        Field(ge=0.001, le=1e9, description="export requests that one key may send; more get a retry delay"),
    ] = None
    key_bytes_per_second: Annotated[
        float | None, Field(ge=1, le=1e12, description="bytes of export requests that one key may send, decompressed")
    ] = None
    audit_entries: Annotated[
        int, Field(ge=1000, le=100_000_000, description="entries of the audit that are kept, the latest ones")
    ] = 100_000
    tls_cert: Annotated[
        Path | None,
        Field(description="a certificate chain in a PEM file, with `tls_key`: every address then takes TLS only"),
    ] = None
    tls_key: Annotated[Path | None, Field(description="the key of that certificate, in a PEM file")] = None
    redaction: Annotated[
        Redaction,
        Field(
            description="what to redact before anything is written: `redaction.keys`, `redaction.patterns`,"
            " `redaction.presets`; [redaction](access.md#redaction)",
            examples=["{keys: [user.*], patterns: ['AB-[0-9]{6}'], presets: [email, card, key]}"],
        ),
    ] = Redaction()
    cors_origins: Annotated[
        tuple[str, ...],
        Field(
            description="origins whose pages may call the HTTP addresses; `*` for any",
            examples=["[https://app.example.org]"],
        ),
    ] = ()
    log_level: Annotated[
        str,
        Field(pattern="^(debug|info|warning|error)$", description="how much is logged; logs go to standard error"),
    ] = "info"
    log_format: Annotated[
        str,
        Field(
            pattern="^(text|json)$",
            description="`json`: a line is a JSON object with `time`, `level`, `logger`, `message`, and the `requestId`"
            " of the request that it is about",
        ),
    ] = "text"
    workarounds: Annotated[
        WorkaroundSettings,
        Field(
            description="what is done because [DuckDB does not do it](operations.md#workarounds):"
            " `workarounds.punch_holes`, `workarounds.rewrite_row_groups`, `workarounds.watch_quack_clients`,"
            " `workarounds.hide_pandas`; all are on",
            examples=["{punch_holes: false}"],
        ),
    ] = WorkaroundSettings()

    @property
    def own_keys(self) -> OwnKeys:
        """Return the settings that decide how spans are read."""
        return OwnKeys(self.attribute_keys, price_table(self.model_prices))

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key need each other")
        return self
