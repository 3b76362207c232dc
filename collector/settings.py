"""The settings, with their bounds and defaults.

The table in docs/configuration.md and deploy/config.example.yaml are made of the descriptions here, by `pytest
tests/test_settings_reference.py --update-golden`. Links in descriptions are relative to docs/.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collector.conventions.own_keys import OwnKeys
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
    LakeUri,
    ModelPrices,
    Network,
    OtlpUrl,
    PathPrefix,
    ResultsUrl,
    Size,
)
from rules.settling import Settling

_MIB = 1 << 20


class BadSettings(Exception):
    """Refusal of settings; the message names each key and its valid values."""


class Settings(BaseModel):
    """All settings. Sizes are in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Annotated[Path, Field(description="data directory for database, spool and lock; created if missing")] = Path(
        "data"
    )
    grpc: Annotated[Address, Field(description="address for OTLP over gRPC; port 0 selects a free port")] = (
        "127.0.0.1:4317"
    )
    otlp_http: Annotated[Address, Field(description="address for OTLP over HTTP")] = "127.0.0.1:4318"
    http: Annotated[Address, Field(description="address of the API and the pages")] = "127.0.0.1:8080"
    quack: Annotated[
        Address | None,
        Field(
            description=(
                "address for [DuckDB clients](dashboards.md#duckdb-attaches) that attach over DuckDB's own"
                " protocol, without TLS"
            ),
            examples=["127.0.0.1:9494"],
        ),
    ] = None
    max_connections: Annotated[
        int,
        Field(
            ge=16,
            le=100_000,
            description=(
                "maximum of open [connections](doors.md#connections) per listener; lower if the limit of open"
                " files is low. At the maximum, a new connection closes an idle one, first of the address with the most"
                " connections"
            ),
        ),
    ] = 1000
    max_connections_per_address: Annotated[
        int,
        Field(
            ge=4,
            le=100_000,
            description="maximum of open connections per client address, except addresses in `trusted_proxies`",
        ),
    ] = 250
    first_byte_seconds: Annotated[
        float,
        Field(
            ge=0.1, le=3600, description="timeout from a connection to its first request, including the TLS handshake"
        ),
    ] = 10
    header_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="timeout from the first byte of a request to the end of its header")
    ] = 20
    max_header_bytes: Annotated[
        int,
        Field(
            ge=4096,
            le=16 * _MIB,
            description="maximum size of a request's header with its URL; over gRPC, of its metadata",
        ),
    ] = 64 << 10
    idle_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description=(
                "timeout of idle connections, of request bodies without progress, and of clients that stop"
                " reading a response. Keep it above the 60 s of common load balancers"
            ),
        ),
    ] = 75
    max_body_bytes: Annotated[
        int,
        Field(  # gRPC and protobuf count in 31 bits
            ge=1024, le=2**31 - 1, description="maximum size of a request body as sent; over gRPC also decompressed"
        ),
    ] = 64 * _MIB
    max_decompressed_bytes: Annotated[
        Bytes, Field(description="maximum size of a request body over HTTP after decompression")
    ] = 64 * _MIB
    queue_bytes: Annotated[
        Bytes,
        Field(
            description=(
                "maximum total size of request bodies in memory; above it, requests are refused with a retry"
                " delay. One client (an API key, or an address if no key is required) gets at most three"
                " quarters"
            )
        ),
    ] = 32 * _MIB
    backlog_bytes: Annotated[
        Bytes,
        Field(
            description=(
                "maximum total size of spans and log records that are durable but not committed; above it,"
                " requests are refused with a retry delay. One client gets at most three quarters, as above"
            )
        ),
    ] = 48 * _MIB
    answer_bytes: Annotated[
        int,
        Field(
            ge=16 * _MIB,
            le=1 << 40,
            description=(
                "maximum total size of [responses](doors.md#answers) over HTTP that clients have not read;"
                " above it, requests get 503. One client gets at most three quarters, as above"
            ),
        ),
    ] = 128 * _MIB
    commit_interval_ms: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description=(
                "maximum time from the arrival of a span to its commit; up to three times as long under continuous load"
            ),
        ),
    ] = 300
    retention_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="a trace expires this long after the arrival of its latest span; the next sweep deletes it",
        ),
    ] = 30
    project_retention_days: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=36_500)]],
        Field(
            description="`retention_days` by project; applies to spans that arrive after the change",
            examples=["{shop: 90, lab: 7}"],
        ),
    ] = {}
    run_retention_days: Annotated[
        int | None,
        Field(ge=1, le=36_500, description="a [run](experiments.md) is deleted this long after its end; none: never"),
    ] = None
    max_bytes: Annotated[
        int | None,
        Field(
            ge=16 * _MIB,
            le=1 << 50,
            description=(
                "size of the database above which the oldest traces are deleted early, or with a lake move there early:"
                " [retention](retention.md)"
            ),
        ),
    ] = None
    sweep_interval_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=7 * 86_400,
            description="time between two sweeps, which delete expired data and free its disk space",
        ),
    ] = 3600
    sweep_share: Annotated[
        float,
        Field(
            ge=0.001,
            le=1,
            description=(
                "maximum fraction of stored data that a sweep may delete because of age; above it, nothing is"
                " deleted until [`tracejury sweep --yes`](retention.md#a-clock-that-is-wrong); 1: no limit"
            ),
        ),
    ] = 0.5
    duckdb_memory: Annotated[
        Size | None,
        Field(
            description=(
                "DuckDB's memory limit; none: a quarter of the memory of the machine or its cgroup, between"
                " 256 MiB and 16 GiB. Opening the file may briefly use more, and spans above 100 kB use more"
                " for longer (`memory_raised` in the [log](operations.md))"
            ),
            examples=["512MB"],
        ),
    ] = None
    duckdb_threads: Annotated[
        int | None,
        Field(
            ge=1,
            le=256,
            description=(
                "DuckDB's threads; none: one per processor, at most 16. Threads of queries have lower"
                " priority than ingest"
            ),
        ),
    ] = None
    attribute_keys: Annotated[
        AttributeKeys,
        Field(
            description=(
                "your own attributes for a field: project (`*` for all), [field](reading.md), keys. The first"
                " key with a value is used"
            ),
            examples=['{"*": {session_id: [my.session]}, shop: {input: [shop.question], output: [shop.answer]}}'],
        ),
    ] = {}
    drop_scopes: Annotated[
        DropScopes,
        Field(
            description=(
                "instrumentation scopes whose spans are accepted and [dropped](programs.md#sent-twice):"
                " project (`*` for all) and scope names, optionally with a space and a version; a trailing `*`"
                " matches anything"
            ),
            examples=['{"*": [com.anthropic.sdk.python], shop: [opentelemetry.instrumentation.*, "ai 6.*"]}'],
        ),
    ] = {}
    model_prices: Annotated[
        ModelPrices,
        Field(
            description=(
                "[prices of models](reading.md#cost) that override the built-in ones, in USD per million"
                " tokens; `null` instead of the prices: no costs are computed"
            ),
            examples=["{my-model: {input: 2, cached: 0.5, output: 8, reasoning: 8}, other: {input: 0.59, output: 1}}"],
        ),
    ] = {}
    rules: Annotated[
        Path | None,
        Field(description="folder of [rules](rules.md), one YAML file each; changes are picked up automatically"),
    ] = None
    settle_after_root_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=86_400,
            description=(
                "a trace whose root has ended [settles](rules.md#what-becomes-of-a-span-or-a-trace) this long"
                " after its latest span"
            ),
        ),
    ] = 10
    settle_quiet_seconds: Annotated[
        float,
        Field(ge=0, le=86_400, description="a trace whose root has not ended settles this long after its latest span"),
    ] = 180
    settle_missing_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=86_400,
            description=(
                "how long after the end of a run the server waits for a trace that an [item of the"
                " run](experiments.md#evaluators-of-the-server) names and that has not arrived; increase it if"
                " a collector delays traces, for example for tail sampling"
            ),
        ),
    ] = 30
    settle_longest_seconds: Annotated[
        float, Field(ge=0, le=604_800, description="a trace settles at the latest this long after its first span")
    ] = 3600
    session_idle_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=604_800,
            description=(
                "a [session](sessions.md) becomes `closed` this long after its last span started or ended,"
                " and `open` again with a new trace; [rules about sessions](rules.md#sessions) evaluate it"
                " this long after the arrival of its last span"
            ),
        ),
    ] = 900
    review_lease_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=86_400,
            description="time for which a reviewer holds an entry of a [review queue](review.md#queues)",
        ),
    ] = 900
    job_attempts: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description=(
                "attempts of an evaluation whose judge does not respond, before it has [failed](evaluation.md#attempts)"
            ),
        ),
    ] = 8
    retry_over_budget: Annotated[
        bool,
        Field(
            description=(
                "each day from 00:01 UTC, retry evaluations that [budgets](connections.md#budgets) skipped in"
                " the previous seven days, before new ones and from the new day's budgets"
            )
        ),
    ] = False
    code_judges: Annotated[int, Field(ge=1, le=256, description="judge programs that run concurrently")] = 2
    encryption_key: Annotated[
        EncryptionKey | None,
        Field(
            description=(
                "key that encrypts [the keys of connections](connections.md#keys): 32 bytes as hexadecimal"
                " digits or base64, or a passphrase of at least 12 characters. Prefer the environment variable"
                " to the file. None: `encryption.key` in the data directory, created at the first start"
            )
        ),
    ] = None
    llm_connections: Annotated[
        ConnectionDocuments,
        Field(
            description=(
                "[connections](connections.md) to judge models, by name, without keys; `credentialRef` names"
                " the environment variable with the key"
            ),
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
            description=(
                "daily [judge budgets](connections.md#budgets) by project; `*` gives every other project its own budget"
            ),
            examples=['{"*": {callsPerDay: 1000}, shop: {usdPerDay: 2.5}}'],
        ),
    ] = {}
    judge_traces: Annotated[
        bool,
        Field(
            description=(
                "store a span for each judge request, except for spans of tenants;"
                " [rules never match it](connections.md#no-loops). Without effect with `tls_cert`"
            ),
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
            description=(
                "hosts at private addresses that webhooks and [connections of"
                " tenants](connections.md#tenants) may call: names, addresses, networks"
            ),
            examples=["[hooks.internal, 10.0.0.0/8]"],
        ),
    ] = ()
    webhook_rotation_hours: Annotated[
        float,
        Field(ge=0, le=8760, description="time for which a replaced webhook secret still signs"),
    ] = 24
    lake: Annotated[
        LakeUri | None,
        Field(
            description="a directory, or `s3://BUCKET/PREFIX`, in which spans, logs, sums of traces,"
            " tool calls, decisions and results are published as Delta tables, and to which traces [move](lake.md)."
            " Needs the extra `tracejury[lake]`. Credentials, region and endpoint of a store come from"
            " `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP`",
            examples=["s3://traces/tracejury", "/srv/lake"],
        ),
    ] = None
    lake_interval_seconds: Annotated[
        float, Field(ge=0.1, le=86_400, description="time between publications in the lake")
    ] = 30
    lake_hot_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="days for which traces stay in the database; then whole traces leave it, once they are in"
            " the lake",
        ),
    ] = 7
    results_endpoint: Annotated[
        ResultsUrl | None,
        Field(
            description="receiver of [results](scores.md#scores-out): URL for OTLP log records, over HTTP or gRPC",
            examples=["https://collector.example.com/v1/logs", "grpcs://collector.example.com:4317"],
        ),
    ] = None
    results_headers: Annotated[
        Headers,
        Field(
            description="headers of these requests: name, and the environment variable with the value",
            examples=["{authorization: RESULTS_AUTHORIZATION}"],
        ),
    ] = {}
    results_batch: Annotated[
        int, Field(ge=1, le=10_000, description="maximum number of results in one such request")
    ] = 512
    own_traces_endpoint: Annotated[
        OtlpUrl | None,
        Field(
            description="receiver of the [server's own traces](operations.md): URL for OTLP spans over HTTP",
            examples=["https://collector.example.com/v1/traces"],
        ),
    ] = None
    own_traces_headers: Annotated[Headers, Field(description="headers of these requests, as in `results_headers`")] = {}
    sql_rows: Annotated[int, Field(ge=1, le=1_000_000, description="maximum number of rows in an SQL response")] = (
        10_000
    )
    sql_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="timeout of an SQL query; it ends at most 5 s later")
    ] = 30
    sql_memory_bytes: Annotated[
        Bytes | None,
        Field(
            description=(
                "total memory of SQL queries, as a part of `duckdb_memory`; none: half of it. Above it,"
                " running queries are stopped. A query in its own process gets this divided by `sql_at_once`,"
                " at least 32 MiB"
            )
        ),
    ] = None
    sql_at_once: Annotated[
        int,
        Field(
            ge=1,
            le=64,
            description=(
                "SQL queries that run concurrently; others wait up to `sql_seconds` and are then refused with"
                " a retry delay. With several slots, one key never uses all. If more keys wait than there are slots,"
                " the key"
                " with the fewest statements runs first"
            ),
        ),
    ] = 2
    shutdown_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=3600,
            description="time limit for shutdown: half for running requests, half for the commits after them",
        ),
    ] = 30
    api_key: Annotated[
        ApiKey | None,
        Field(
            description=(
                "the operator's key with full access, 16 to 200 characters. The command line sends the value"
                " of the variable. Prefer the environment variable to the file. [Access](access.md)"
            )
        ),
    ] = None
    reads: Annotated[
        str,
        Field(pattern="^(key|open)$", description="`open` lets clients without a key read the data of no tenant"),
    ] = "key"
    insecure_open: Annotated[
        bool,
        Field(
            description=(
                "allow listening on non-local addresses without a key: anyone may then read and write everything"
            )
        ),
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...],
        Field(
            description=(
                "host names under which clients may call the server without a key, besides those of this machine"
            )
        ),
    ] = ()
    trusted_proxies: Annotated[
        tuple[Network, ...],
        Field(
            description=(
                "addresses and networks of [reverse proxies](access.md#proxies) whose `X-Forwarded-For` and"
                " `X-Forwarded-Proto` are trusted. Without this, the client address is that of the connection,"
                " and all clients without a key behind a proxy [count as one](access.md#proxies)"
            ),
            examples=["[10.0.0.7, 10.1.0.0/16]"],
        ),
    ] = ()
    path_prefix: Annotated[
        PathPrefix,
        Field(
            description="path under which [a reverse proxy](access.md#under-a-path) serves the server; none: `/`",
            examples=["/tools/tracejury"],
        ),
    ] = ""
    key_requests_per_second: Annotated[
        float | None,
        Field(
            ge=0.001,
            le=1e9,
            description="rate limit of export requests per key; above it, requests are refused with a retry delay",
        ),
    ] = None
    key_bytes_per_second: Annotated[
        float | None, Field(ge=1, le=1e12, description="rate limit of decompressed export bytes per key")
    ] = None
    audit_entries: Annotated[
        int, Field(ge=1000, le=100_000_000, description="number of latest audit entries to keep")
    ] = 100_000
    tls_cert: Annotated[
        Path | None,
        Field(
            description=(
                "certificate chain as a PEM file, with `tls_key`; all addresses then accept only TLS, except `quack`,"
                " which then has to be a loopback address"
            )
        ),
    ] = None
    tls_key: Annotated[Path | None, Field(description="private key of the certificate as a PEM file")] = None
    redaction: Annotated[
        Redaction,
        Field(
            description=(
                "what to redact before anything is written: `redaction.keys`, `redaction.patterns`,"
                " `redaction.presets`; [redaction](access.md#redaction)"
            ),
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
        Field(pattern="^(debug|info|warning|error)$", description="minimum log level; logs go to standard error"),
    ] = "info"
    log_format: Annotated[
        str,
        Field(
            pattern="^(text|json)$",
            description=(
                "`json` logs one JSON object per line with `time`, `level`, `logger` and `message`; in a request also"
                " `requestId`, with a traceback also `exception`"
            ),
        ),
    ] = "text"
    workarounds: Annotated[
        WorkaroundSettings,
        Field(
            description=(
                "workarounds for [missing features of DuckDB](operations.md#workarounds):"
                " `workarounds.punch_holes`, `workarounds.rewrite_row_groups`,"
                " `workarounds.watch_quack_clients`, `workarounds.hide_pandas`; all enabled by default"
            ),
            examples=["{punch_holes: false}"],
        ),
    ] = WorkaroundSettings()

    @property
    def own_keys(self) -> OwnKeys:
        """Return the settings that decide how spans are read."""
        return OwnKeys(self.attribute_keys, price_table(self.model_prices))

    @property
    def settling(self) -> Settling:
        """Return the settings that decide when a trace or a session counts as complete."""
        return Settling(
            after_root_s=self.settle_after_root_seconds,
            quiet_s=self.settle_quiet_seconds,
            missing_s=self.settle_missing_seconds,
            longest_s=self.settle_longest_seconds,
            session_s=self.session_idle_seconds,
        )

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key need each other")
        return self
