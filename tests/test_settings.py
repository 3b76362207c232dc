"""Settings: which source wins, and how each mistake is named."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from collector.setting_groups import Redaction, WebhookSettings, WorkaroundSettings
from collector.settings import BadSettings, Settings
from collector.settings_loading import load_settings
from tests.source_tree import ROOT
from tests.walking import NUMBERS, TEXTS, TIMES

DEFAULTS = Settings()
NAMES = list(Settings.model_fields)

CONNECTIONS = {"judge": {"baseUrl": "http://127.0.0.1:1/v1", "model": "m", "credentialRef": "JUDGE_KEY"}}
UNQUOTED = {
    "api_key",
    "encryption_key",
    "llm_connections",
    "project_budgets",
    "alert_webhooks",
    "lake",
    "results_endpoint",
    "results_headers",
    "own_traces_endpoint",
    "own_traces_headers",
}  # they may hold a secret, if only by mistake

# For every setting: something else than its default, as a flag, and the same as the text of a variable.
OTHERS: dict[str, tuple[Any, str]] = {
    "data": (Path("/elsewhere"), "/elsewhere"),
    "grpc": ("[::1]:1", "[::1]:1"),
    "otlp_http": ("localhost:2", "localhost:2"),
    "http": ("0.0.0.0:65535", "0.0.0.0:65535"),
    "quack": ("localhost:9494", "localhost:9494"),
    "max_connections": (500, "500"),
    "max_connections_per_address": (50, "50"),
    "first_byte_seconds": (2.5, "2.5"),
    "header_seconds": (3.5, "3.5"),
    "max_header_bytes": (8192, "8192"),
    "idle_seconds": (30.5, "30.5"),
    "max_body_bytes": (2048, "2048"),
    "max_decompressed_bytes": (4096, "4096"),
    "queue_bytes": (8192, "8192"),
    "backlog_bytes": (16384, "16384"),
    "answer_bytes": (32 << 20, str(32 << 20)),
    "commit_interval_ms": (7, "7"),
    "retention_days": (8, "8"),
    "project_retention_days": ({"shop": 90}, "{shop: 90}"),
    "run_retention_days": (90, "90"),
    "max_bytes": (1 << 30, "1073741824"),
    "sweep_interval_seconds": (60.5, "60.5"),
    "sweep_share": (0.25, "0.25"),
    "duckdb_memory": ("2 GiB", "2 GiB"),
    "duckdb_threads": (3, "3"),
    "attribute_keys": ({"shop": {"input": ("my.question",)}}, '{"shop": {"input": ["my.question"]}}'),
    "drop_scopes": ({"*": ("sdk.python",), "shop": ("ai 6.*",)}, '{"*": [sdk.python], shop: ["ai 6.*"]}'),
    "model_prices": ({"gpt-5": {"input": 1.5, "output": 9.0}}, "{gpt-5: {input: 1.5, output: 9}}"),
    "rules": (Path("/rules"), "/rules"),
    "settle_after_root_seconds": (2.5, "2.5"),
    "settle_quiet_seconds": (0.0, "0"),
    "settle_missing_seconds": (5.5, "5.5"),
    "settle_longest_seconds": (7200.0, "7200"),
    "session_idle_seconds": (60.5, "60.5"),
    "review_lease_seconds": (60.5, "60.5"),
    "job_attempts": (4, "4"),
    "retry_over_budget": (True, "true"),
    "code_judges": (5, "5"),
    "encryption_key": (SecretStr("an old passphrase"), "an old passphrase"),
    "llm_connections": (CONNECTIONS, json.dumps(CONNECTIONS)),
    "project_budgets": ({"*": {"callsPerDay": 5}}, '{"*": {callsPerDay: 5}}'),
    "judge_traces": (True, "true"),
    "alert_webhooks": (
        (WebhookSettings(project="shop", url=SecretStr("https://hooks.example"), secretEnv="SECRET"),),
        '[{"project": "shop", "url": "https://hooks.example", "secretEnv": "SECRET"}]',
    ),
    "webhook_private_hosts": (("10.0.0.0/8", "hooks.internal"), "10.0.0.0/8, hooks.internal"),
    "webhook_rotation_hours": (1.5, "1.5"),
    "lake": ("s3://bucket/prefix", "s3://bucket/prefix"),
    "lake_interval_seconds": (5.5, "5.5"),
    "lake_hot_days": (30, "30"),
    "results_endpoint": ("https://collector/v1/logs", "https://collector/v1/logs"),
    "results_headers": ({"authorization": "VARIABLE"}, "{authorization: VARIABLE}"),
    "results_batch": (9, "9"),
    "own_traces_endpoint": ("https://collector/v1/traces", "https://collector/v1/traces"),
    "own_traces_headers": ({"authorization": "VARIABLE"}, "{authorization: VARIABLE}"),
    "sql_rows": (11, "11"),
    "sql_seconds": (1.5, "1.5"),
    "sql_memory_bytes": (64 << 20, str(64 << 20)),
    "sql_at_once": (3, "3"),
    "shutdown_seconds": (2.5, "2.5"),
    "api_key": (SecretStr("k" * 16), "k" * 16),
    "reads": ("open", "open"),
    "insecure_open": (True, "true"),
    "allowed_hosts": (("traces.example",), "traces.example,"),
    "trusted_proxies": (("10.0.0.7/32", "10.1.0.0/16"), "10.0.0.7, 10.1.0.0/16"),
    "path_prefix": ("/tools/tracejury", "/tools/tracejury"),
    "key_requests_per_second": (0.5, "0.5"),
    "key_bytes_per_second": (1e6, "1e6"),
    "audit_entries": (1000, "1000"),
    "tls_cert": (Path("/c.pem"), "/c.pem"),
    "tls_key": (Path("/k.pem"), "/k.pem"),
    "redaction": (Redaction(keys=("user.*",), presets=("email",)), "{keys: [user.*], presets: [email]}"),
    "cors_origins": (("http://a", "http://b"), " http://a, http://b,"),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
    "workarounds": (WorkaroundSettings(punch_holes=False), "{punch_holes: false}"),
}

# For every setting: values that are refused, as YAML has them.
WRONG: dict[str, list[Any]] = {
    "data": [5, [], {}],
    "grpc": ["4317", "localhost", ":4317", "localhost:", "localhost:x", "localhost:65536", "localhost:-1", 4317, ""],
    "otlp_http": ["nowhere", "h:1.5"],
    "http": ["http://127.0.0.1:8080/x", "h:99999"],
    "quack": ["9494", "quack:localhost", 9494],
    "max_connections": [15, 1e9, "many"],
    "max_connections_per_address": [3, "x"],
    "first_byte_seconds": [0, 3601, "soon"],
    "header_seconds": [0, -1, float("nan")],
    "max_header_bytes": [4095, "64KiB", 1 << 30],
    "idle_seconds": [0.5, 86_401, "x"],
    "max_body_bytes": [0, -1, 1023, "64MB", 1.5, "", []],
    "max_decompressed_bytes": [1, "much"],
    "queue_bytes": [0, "x"],
    "backlog_bytes": [-5, {}],
    "answer_bytes": [1 << 20, "x"],
    "commit_interval_ms": [0, 10_001, "soon"],
    "retention_days": [0, 36_501, "for ever"],
    "project_retention_days": [5, [], {"shop": 0}, {"shop": "long"}],
    "run_retention_days": [0, 36_501, "for ever"],
    "max_bytes": [0, (16 << 20) - 1, "1GB", []],
    "sweep_interval_seconds": [0, 1e-9, -1, 604_801, float("nan"), "daily"],
    "sweep_share": [0, -0.1, 1.1, float("nan"), "half"],
    "duckdb_memory": ["lots", "384", "384 KB", "-1GB", "", 384, "0MB", "31.9MB", "0.01GiB"],
    "duckdb_threads": [0, 257, "all"],
    "attribute_keys": ["x", [], {"shop": {"colour": ["my.colour"]}}, {"*": {"input": [""]}}],
    "drop_scopes": ["x", [], {"*": ["*"]}, {"*": [""]}, {"*": ["a*b"]}, {"": ["a"]}],
    "model_prices": ["x", [], {"gpt-5": {"output": 1}}, {"gpt-5": {"input": -1}}],
    "rules": [5, [], {}],
    "settle_after_root_seconds": [-1, 86_401, "x"],
    "settle_quiet_seconds": [-1, 86_401, "x"],
    "settle_missing_seconds": [-1, 86_401, "x"],
    "settle_longest_seconds": [-1, 604_801, "x"],
    "session_idle_seconds": [0, 604_801, "x"],
    "review_lease_seconds": [0, 86_401, "x"],
    "job_attempts": [0, 101, "x"],
    "retry_over_budget": ["x"],
    "code_judges": [0, 257, "x"],
    "encryption_key": ["short", 5, [], "0" * 11],
    "llm_connections": ["x", [], {"a": 5}, {"a": {"baseUrl": "x"}}, {"a": {**CONNECTIONS["judge"], "apiKey": "sk-1"}}],
    "project_budgets": ["x", {"shop": {"callsPerDay": -1}}, {"shop": {"calls": 1}}, {"shop": 7}],
    "judge_traces": ["perhaps", 7, []],
    "alert_webhooks": [
        "x",
        {"project": "shop"},
        [{"project": "shop"}],
        [{"project": "", "url": "https://x", "secret": "hush"}],
        [{"project": "shop", "url": "https://x", "urlEnv": "X"}],
        [{"project": "shop", "url": "https://x", "secret": "hush", "secretEnv": "X"}],
        [{"project": "shop", "url": "https://x", "secret": "hush", "events": []}],
        [{"project": "shop", "url": "https://x", "secret": "hush", "template": "fax"}],
        [{"project": "shop", "url": "https://x", "secret": ["hush"]}],
    ],
    "webhook_private_hosts": [5, [5], {"a": 1}],
    "webhook_rotation_hours": [-1, 9000, "soon"],
    "lake": ["lake", "s3://", "http://bucket", "s3://key:hush@bucket/x", ["/lake"]],
    "lake_interval_seconds": [0, 86_401, "soon"],
    "lake_hot_days": [0, 36_501, 1.5, "soon"],
    "results_endpoint": [
        "collector:4318",
        "https://xn--/x",
        "grpc://xn--/",
        "https://a..b/",
        "ftp://collector/v1/logs",
        "https://me:hush@collector/v1/logs",
        "grpc://collector:4317/v1/logs",
        "grpcs://me:hush@collector",
        "grpc://:4317",
        "grpc://collector:0",
        "grpc://collector:many",
        5,
    ],
    "results_headers": [5, {"a b": "VARIABLE"}, {"a": ""}],
    "results_batch": [0, 20_000, "many"],
    "own_traces_endpoint": ["collector", "https://collector/?key=hush"],
    "own_traces_headers": [["authorization"], {"a": 5}],
    "sql_rows": [0, 1_000_001, "x"],
    "sql_seconds": [0, -1, 3601, float("inf"), float("nan"), "x"],
    "sql_memory_bytes": [0, 1023, "x"],
    "sql_at_once": [0, 65, "x"],
    "shutdown_seconds": [0, 3601, float("nan"), "x"],
    "api_key": ["", "short", "k" * 201, "with spaces in it", "k" * 15 + "\xe9", 5, []],
    "reads": ["yes", "", True],
    "insecure_open": ["perhaps", 5, ""],
    "allowed_hosts": [5, [5]],
    "trusted_proxies": [5, ["proxy.internal"], ["10.0.0.1/8"], {"a": 1}],
    "path_prefix": ["tools", "//tools", "/a b", 5],
    "key_requests_per_second": [0, -1, "x", float("nan")],
    "key_bytes_per_second": [0, "1 MB"],
    "audit_entries": [999, "all"],
    "tls_cert": [5, []],
    "tls_key": [5, {}],
    "redaction": ["x", 5],
    "cors_origins": [5, [5], {"a": 1}],
    "log_level": ["loud", "INFO!", "", 5],
    "log_format": ["xml", ""],
    "workarounds": ["off", 5],
}


def a_file(folder: Path, text: str) -> Path:
    """Build a configuration file."""
    path = folder / "tracejury.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(
    file: Path | None = None, flags: dict[str, Any] | None = None, environ: dict[str, str] | None = None
) -> str:
    """Read invalid settings; return the error."""
    with pytest.raises(BadSettings) as bad:
        load_settings(file, flags or {}, environ or {})
    return str(bad.value)


def test_the_tables_of_this_test_name_every_setting() -> None:
    """A new setting needs a value that is right and one that is wrong here."""
    assert list(OTHERS) == NAMES
    assert list(WRONG) == NAMES


def test_without_anything_the_defaults_hold() -> None:
    """No file, no variables, and no flags, or an empty file, are the defaults."""
    assert load_settings(None, {}, {}) == DEFAULTS


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    """A file with nothing in it, or with nothing but comments, is not a mistake."""
    for text in ("", "# nothing\n", "---\n", "{}"):
        assert load_settings(a_file(tmp_path, text), {}, {}) == DEFAULTS


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_can_come_from_every_source(tmp_path: Path, name: str) -> None:
    """A flag, a variable and a line of the file each set it, and it is then not the default."""
    value, text = OTHERS[name]
    file = a_file(tmp_path, yaml.safe_dump({name: _written(value)}))
    partner = {"tls_cert": {"tls_key": Path("/k.pem")}, "tls_key": {"tls_cert": Path("/c.pem")}}.get(name, {})
    read_back = [
        load_settings(None, {name: _written(value)} | partner, {}),
        load_settings(None, partner, {f"TRACEJURY_{name.upper()}": text}),
        load_settings(file, partner, {}),
    ]
    assert [getattr(each, name) for each in read_back] == [value] * 3
    assert getattr(DEFAULTS, name) != value


def _written(value: object) -> object:
    """Return the value as YAML has it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Redaction | WorkaroundSettings):
        return value.model_dump(mode="json")
    if isinstance(value, WebhookSettings):
        return {name: _written(part) for name, part in value if part != WebhookSettings.model_fields[name].default}
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    if isinstance(value, dict):
        return {name: _written(item) for name, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def test_what_is_secret_is_not_shown() -> None:
    """Settings that are printed, as in a traceback, hold no key, no secret and no address of a hook."""
    webhook = {"project": "shop", "url": "https://x/hush", "secret": "hush", "previousSecret": "hush"}
    loaded = load_settings(None, {"encryption_key": "hush, a passphrase", "alert_webhooks": [webhook]}, {})
    assert "hush" not in repr(loaded)


def test_a_mistake_inside_of_a_setting_is_named_with_its_place() -> None:
    """Of a setting that holds more than one value, the message says which of them is wrong."""
    message = refusal(environ={"TRACEJURY_ATTRIBUTE_KEYS": "{shop: {input: [a], output: 5}}"})
    assert message == "TRACEJURY_ATTRIBUTE_KEYS: shop: output: Input should be a valid tuple (got 5)"


@pytest.mark.parametrize(
    "text, message",
    [
        ("{presets: [e-mail]}", "presets: 0: e-mail is not a preset; there are: email, card, key (got 'e-mail')"),
        ("{patterns: ['(']}", "patterns: 0: a pattern is not a supported regular expression"),
        ("{keys: ['']}", "keys: 0: String should have at least 1 character (got '')"),
        ("{colour: [x]}", "colour: Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_redacted_is_named(text: str, message: str) -> None:
    """A preset, a pattern or a key that is none is refused with its place."""
    assert refusal(environ={"TRACEJURY_REDACTION": text}).startswith(f"TRACEJURY_REDACTION: {message}")


@given(st.sets(st.sampled_from(["flag", "variable", "file"])))
@settings(max_examples=8)
def test_flags_beat_variables_beat_the_file(tmp_path_factory: pytest.TempPathFactory, sources: set[str]) -> None:
    """Whichever sources name a setting, the strongest of them decides, and the others need not agree."""
    file = a_file(tmp_path_factory.mktemp("file"), "retention_days: 3\nsql_rows: 5\n" if "file" in sources else "")
    environ = {"TRACEJURY_RETENTION_DAYS": "2"} if "variable" in sources else {}
    flags = {"retention_days": 1} if "flag" in sources else {}
    expected = 1 if flags else 2 if environ else 3 if "file" in sources else 30
    loaded = load_settings(file, flags, environ)
    assert loaded.retention_days == expected
    assert loaded.sql_rows == (5 if "file" in sources else DEFAULTS.sql_rows)


def test_other_variables_are_none_of_our_business() -> None:
    """Only variables with our prefix are read."""
    assert load_settings(None, {}, {"PATH": "/bin", "GRPC": "x", "TRACEJURYX": "y", "tracejury_grpc": "z"}) == DEFAULTS


@pytest.mark.parametrize("name, value", [(name, value) for name in NAMES for value in WRONG[name]], ids=repr)
def test_every_invalid_value_is_named(tmp_path: Path, name: str, value: object) -> None:
    """An invalid value is refused with its source and, unless it may be secret, the value itself."""
    message = refusal(flags={name: value})
    assert message.startswith(f"--{name.replace('_', '-')}: ")
    assert (f"(got {_innermost(value)!r})" in message) is (name not in UNQUOTED)
    assert "hush" not in message
    if isinstance(value, str):
        assert refusal(environ={f"TRACEJURY_{name.upper()}": value}).startswith(f"TRACEJURY_{name.upper()}: ")
        file = a_file(tmp_path, f"{name}: {value!r}\n")
        assert refusal(file).startswith(f"{file}: {name}: ")


def test_a_secret_that_is_refused_is_not_repeated() -> None:
    """Wherever a key was put by mistake, the message about it does not hold it."""
    key = "sk-zz"
    connection = {"baseUrl": key, "model": [key], "credentialRef": key, "apiKey": key, "limits": key}
    for flags in (
        {"encryption_key": key},
        {"encryption_key": [key]},
        {"llm_connections": key},
        {"llm_connections": {"judge": key}},
        {"llm_connections": {"judge": connection}},
        {"llm_connections": {"judge": {name: value for name, value in connection.items() if name != "apiKey"}}},
        {"project_budgets": {"shop": {"usdPerDay": key}}},
    ):
        assert key not in refusal(flags=flags)
    assert key not in repr(load_settings(None, {"encryption_key": key * 5}, {}))


def _innermost(value: object) -> object:
    if isinstance(value, dict) and isinstance(value.get("shop"), int | str):
        return value["shop"]
    return value[0] if isinstance(value, list) and value else value


def test_unknown_keys_are_named_wherever_they_stand(tmp_path: Path) -> None:
    """A key that is not a setting is refused by name in the file, among the variables, and among the flags."""
    file = a_file(tmp_path, "grcp: 127.0.0.1:1\n")
    assert f"{file}: grcp: unknown setting; there are: data, grpc, " in refusal(file)
    assert "TRACEJURY_GRCP: unknown setting" in refusal(environ={"TRACEJURY_GRCP": "x"})
    assert "--grcp: unknown setting" in refusal(flags={"grcp": "x"})
    assert "TRACEJURY_: unknown setting" in refusal(environ={"TRACEJURY_": "x"})


def test_variables_of_commands_and_of_the_sdk_are_no_settings() -> None:
    """Each variable of that beginning in a document is a setting, or one that the settings pass over."""
    documents = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.y*ml"), ROOT / "sdk" / "python" / "README.md"]
    named = {each for file in documents for each in re.findall(r"\bTRACEJURY_([A-Z_]+)\b", file.read_text("utf-8"))}
    others = {each for each in named if each.lower() not in Settings.model_fields}
    assert "PROJECT" in others
    load_settings(None, {}, {f"TRACEJURY_{each}": "x" for each in others})


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    """No mistake hides the next."""
    file = a_file(tmp_path, "http: nowhere\ncolour: blue\n5: five\n")
    message = refusal(file, flags={"sql_rows": 0}, environ={"TRACEJURY_LOG_LEVEL": "loud"})
    for part in (f"{file}: http: ", f"{file}: colour: ", f"{file}: 5: ", "--sql-rows: ", "TRACEJURY_LOG_LEVEL: "):
        assert part in message


def test_a_mistake_is_named_where_it_was_made(tmp_path: Path) -> None:
    """A wrong value is not an error if a stronger source overrides it, and else it is named with its source."""
    file = a_file(tmp_path, "retention_days: never\n")
    assert load_settings(file, {"retention_days": 3}, {}).retention_days == 3
    assert load_settings(file, {}, {"TRACEJURY_RETENTION_DAYS": "3"}).retention_days == 3
    good = a_file(tmp_path, "retention_days: 3\n")
    assert refusal(good, environ={"TRACEJURY_RETENTION_DAYS": "never"}).startswith("TRACEJURY_RETENTION_DAYS: ")


@pytest.mark.parametrize(
    "text",
    [
        "grpc: [",
        "grpc: 'x",
        "a: b: c",
        "\tgrpc: x",
        "? [a]\n: b\n{[1]: 2}",
        "!!python/object:os.system x",
        "grpc: *nowhere",
        "\0",
        "retention_days: 2026-13-45",
        "sql_seconds: 1:99:99:" + "9" * 400 + ".5",
        "[" * 5000,
    ],
)
def test_what_is_not_yaml_is_said_to_be_not_yaml(tmp_path: Path, text: str) -> None:
    """A file that YAML cannot read is refused by its name."""
    file = a_file(tmp_path, text)
    assert str(file) in refusal(file)


@pytest.mark.parametrize("text, kind", [("- grpc", "list"), ("grpc", "str"), ("5", "int"), ("true", "bool")])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, kind: str) -> None:
    """A file that is not a mapping is refused with the type of its content."""
    file = a_file(tmp_path, text)
    assert refusal(file) == f"{file}: expected settings, one `key: value` a line, got {kind}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, a folder, and a file that is not a text are refused by name."""
    no_text = tmp_path / "binary.yaml"
    no_text.write_bytes(b"\xff\xfe\xfa")
    for path in (tmp_path / "missing.yaml", tmp_path, no_text):
        assert refusal(path).startswith(f"{path} cannot be read: ")


@given(st.dictionaries(st.sampled_from([*NAMES, "x"]), st.text(max_size=8), max_size=4))
def test_any_variables_are_settings_or_mistakes(texts: dict[str, str]) -> None:
    """Whatever the environment says, the answer is settings or the names of the mistakes."""
    environ = {f"TRACEJURY_{name.upper()}": text for name, text in texts.items()}
    try:
        load_settings(None, {}, environ)
    except BadSettings as bad:
        if "tls_cert and tls_key" in str(bad):
            return
        assert any(name in str(bad) for name in environ)  # noqa: PT017 - good settings are right, too


def test_every_number_of_the_settings_has_bounds() -> None:
    """A number has a least and a greatest value, since gRPC, DuckDB and clocks each end somewhere, in a traceback."""
    unbounded = set()
    for name, described in Settings.model_json_schema()["properties"].items():
        for each in (described, *described.get("anyOf", ())):
            if each.get("type") in {"integer", "number"} and not {"minimum", "maximum"} <= each.keys():
                unbounded.add(name)
    assert unbounded == set()


@pytest.mark.costly("collector/settings_loading.py")
@pytest.mark.parametrize("name", NAMES)
def test_any_value_is_a_setting_or_a_mistake(tmp_path: Path, name: str) -> None:
    """Extreme numbers, hostile texts and JSON that is none, in a file and in the environment, are taken or named."""
    file = tmp_path / "config.yaml"
    for value in (*NUMBERS, *TIMES, *TEXTS, ".inf", "{a: .nan}", '{"a": 1e400}', "\udc80"):
        file.write_bytes(f"{name}: {value}\n".encode(errors="surrogatepass"))
        for source, environ in ((file, {}), (None, {f"TRACEJURY_{name.upper()}": value})):
            with suppress(BadSettings):
                load_settings(source, {}, environ=environ)


@pytest.mark.parametrize("size", ["9" * 400 + "GB", "1." + "9" * 400 + "GB", "\u0663GB"])
def test_a_size_is_one_that_duckdb_can_hold(size: str) -> None:
    """A size with more digits than any memory has, or digits of another script, is a mistake with its name."""
    with pytest.raises(BadSettings, match="DUCKDB_MEMORY"):
        load_settings(None, {}, environ={"TRACEJURY_DUCKDB_MEMORY": size})


def test_settings_cannot_be_changed() -> None:
    """Settings are read once, at the start."""
    with pytest.raises(ValidationError):
        DEFAULTS.sql_rows = 5  # type: ignore[misc]
