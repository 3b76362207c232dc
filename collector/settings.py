"""Settings: command-line flags, then TRACEJURY_* variables, then the YAML file, then the defaults.

The only module that reads the environment.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.functional_validators import AfterValidator

from collector.conventions.own import OwnKeys

_PREFIX = "TRACEJURY_"
_LAST_PORT = 65535
_MIB = 1 << 20


class BadSettings(Exception):
    """Settings that cannot be used; the message names each key and what would be right."""


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > _LAST_PORT:
        msg = "must be HOST:PORT, as in 127.0.0.1:4317 or [::1]:4317; port 0 picks one"
        raise ValueError(msg)
    return text


def _keys(projects: dict[str, dict[str, tuple[str, ...]]]) -> dict[str, dict[str, tuple[str, ...]]]:
    OwnKeys(projects)  # which knows the fields
    return projects


Address = Annotated[str, AfterValidator(_address)]
Bytes = Annotated[int, Field(ge=1024)]


class Settings(BaseModel):
    """Everything that can be set. Sizes are in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Annotated[Path, Field(description="The data directory.")] = Path("data")
    grpc: Annotated[Address, Field(description="Where OTLP over gRPC is taken.")] = "127.0.0.1:4317"
    otlp_http: Annotated[Address, Field(description="Where OTLP over HTTP is taken.")] = "127.0.0.1:4318"
    http: Annotated[Address, Field(description="Where the API listens.")] = "127.0.0.1:8080"
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
        int, Field(ge=1, le=10_000, description="Spans wait at most this long for their commit.")
    ] = 300
    retention_days: Annotated[
        int, Field(ge=1, le=36_500, description="A trace expires this long after its latest span came.")
    ] = 30
    duckdb_memory: Annotated[
        str, Field(pattern=r"^\d+(\.\d+)?\s?(MB|MiB|GB|GiB)$", description="What DuckDB may hold in memory.")
    ] = "256MB"
    duckdb_threads: Annotated[int, Field(ge=1, le=256, description="Threads that DuckDB may use.")] = 1
    attribute_keys: Annotated[
        dict[str, dict[str, tuple[str, ...]]],
        AfterValidator(_keys),
        Field(description="Attributes of your own that hold a field: project (* for all), field, keys."),
    ] = {}
    sql_rows: Annotated[int, Field(ge=1, le=1_000_000, description="Rows that one SQL answer may have.")] = 10_000
    sql_seconds: Annotated[float, Field(gt=0, le=3600, description="Time that one SQL query may take.")] = 30
    shutdown_seconds: Annotated[
        float, Field(gt=0, le=3600, description="Time for finishing requests and commits when stopping.")
    ] = 30
    cors_origins: Annotated[
        tuple[str, ...], Field(description="Origins whose pages may call the HTTP addresses; * for any.")
    ] = ()
    log_level: Annotated[
        str, Field(pattern="^(debug|info|warning|error)$", description="How much is logged to standard error.")
    ] = "info"


def load_settings(file: Path | None, flags: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Settings:
    """Put the settings together: `flags` beat the environment, which beats the YAML file.

    Raises:
        BadSettings: an unknown key or an invalid value anywhere; all of them are named.
    """
    origins: dict[str, str] = {}
    values: dict[str, object] = {}
    sources = [
        (_from_file(file), f"{file}: "),
        (_from_environment(os.environ if environ is None else environ), ""),
        (dict(flags), ""),
    ]
    for source, origin in sources:
        values |= source
        origins |= {name: origin + name for name in source}
    for name in _from_environment(os.environ if environ is None else environ):
        if name not in flags:
            origins[name] = _PREFIX + name.upper()
    for name in flags:
        origins[name] = "--" + name.replace("_", "-")
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise BadSettings("; ".join(_explain(problem, origins) for problem in error.errors())) from None


def environment_variable(name: str) -> str | None:
    """The variable that a configuration names, such as the one that holds a judge's key; None where it is not set."""
    return os.environ.get(name)


def _explain(problem: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    name = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        return f"{origins[name]}: unknown setting; there are: {', '.join(Settings.model_fields)}"
    inside = "".join(f"{key}: " for key in problem["loc"][1:])
    return f"{origins[name]}: {inside}{problem['msg'].removeprefix('Value error, ')} (got {problem['input']!r})"


def _from_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{file} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # of a date that is none, of brackets without end
        raise BadSettings(f"{file} is not YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadSettings(f"{file}: expected settings, one `key: value` a line, got {type(content).__name__}")
    return {str(name): value for name, value in content.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if variable.startswith(_PREFIX):
            name = variable.removeprefix(_PREFIX).lower()
            values[name] = _PARSERS.get(name, str)(text)
    return values


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _yaml(text: str) -> object:
    """The value; a text that is none is refused by the setting's type."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


_PARSERS: dict[str, Callable[[str], object]] = {"cors_origins": _list, "attribute_keys": _yaml}
"""How variables are read whose settings are more than one value."""
