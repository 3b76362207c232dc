"""Loading of the settings: flags override TRACEJURY_* variables, which override the YAML file, then come defaults.

The only module of `collector` that reads the environment.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from collector.settings import BadSettings, Settings

_PREFIX = "TRACEJURY_"

_OF_COMMANDS = {"url", "project", "patience_s", "update_baseline", "gitlab_token", "sdk"}
"""Variables that are not settings: of commands, the Python client, the gate, and of the examples for CI."""

_UNQUOTED = {
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
}
"""Settings that may hold a secret, if only by mistake: errors do not quote their values."""


def load_settings(file: Path | None, flags: Mapping[str, object], environ: Mapping[str, str] | None = None) -> Settings:
    """Put the settings together: `flags` beat the environment, which beats the YAML file.

    Raises:
        BadSettings: the file cannot be read, or a key is unknown or a value invalid; all such keys are named.
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
    """Return a variable that the configuration names, such as the one with a judge's key; None if it is not set."""
    return os.environ.get(name)


def whole_environment() -> Mapping[str, str]:
    """Return all variables, for a command that runs a user's command as a shell would."""
    return dict(os.environ)


def quiet_grpc() -> None:
    """Have gRPC's core log nothing, unless GRPC_VERBOSITY is set: clients cause its lines.

    It reads the variable once, when `grpc` is imported.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _explain(problem: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    if not problem["loc"]:
        return str(problem["msg"].removeprefix("Value error, "))
    name = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
        return f"{origins[name]}: unknown setting; there are: {', '.join(Settings.model_fields)}"
    inside = "".join(f"{key}: " for key in problem["loc"][1:])
    message = f"{origins[name]}: {inside}{problem['msg'].removeprefix('Value error, ')}"
    return message if name in _UNQUOTED else f"{message} (got {problem['input']!r})"


def _from_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{file} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as an invalid date, or endless brackets
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
            if name not in _OF_COMMANDS:
                values[name] = _PARSERS.get(name, str)(text)
    return values


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _yaml(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _or_none(text: str) -> str | None:
    return text or None


_PARSERS: dict[str, Callable[[str], object]] = {
    "allowed_hosts": _list,
    "cors_origins": _list,
    "trusted_proxies": _list,
    "attribute_keys": _yaml,
    "drop_scopes": _yaml,
    "model_prices": _yaml,
    "rules": _or_none,
    "encryption_key": _or_none,
    "llm_connections": _yaml,
    "project_budgets": _yaml,
    "alert_webhooks": _yaml,
    "webhook_private_hosts": _list,
    "project_retention_days": _yaml,
    "lake": _or_none,
    "results_endpoint": _or_none,
    "results_headers": _yaml,
    "own_traces_endpoint": _or_none,
    "own_traces_headers": _yaml,
    "max_bytes": _yaml,
    "run_retention_days": _yaml,
    "redaction": _yaml,
    "workarounds": _yaml,
}
"""Parsers of variables of settings with several values, or that may be unset."""
