"""`tracejury mcp --folder`: a server in the process of the command, which keeps runs beside the files of a folder."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click

from collector.cli.connecting import reachable
from collector.cli.run_files import ANY_PORTS, server_here
from collector.cli.whole_file import whole_file
from collector.escaping import one_line

_KEPT: Final = ".tracejury"
_VARIABLES: Final = ("LLM_CONNECTIONS", "PROJECT_BUDGETS", "MODEL_PRICES")
"""Settings that the folder's server takes from the environment; others need `tracejury serve`."""


def connection_of(judge: Mapping[str, Any] | None, calls_per_day: int | None) -> Mapping[str, Any]:
    """Return the settings for the model that the judge options describe.

    Raises:
        UsageError: there is a judge without a limit, or a limit without a judge.
    """
    if (judge is None) is not (calls_per_day is None):
        raise click.UsageError("--judge-model and --judge-calls need each other: which model, and how often a day")
    if judge is None:
        return {}
    keys = {"keyEnv": "credentialRef"}
    connection = {keys.get(name, name): value for name, value in judge.items()}
    return {"llm_connections": {"default": connection | {"budget": {"callsPerDay": calls_per_day}}}}


@contextmanager
def server_of_folder(folder: Path, more: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Run a server whose data is in the folder's `.tracejury`; yield its URL and its key.

    If another command already runs a server for the folder, yield the URL and key of that server.

    Raises:
        ClickException: the server cannot be started.
    """
    from collector.settings import BadSettings
    from collector.settings_loading import environment_variable, load_settings
    from storage.engine.lock import read_holder
    from storage.errors import InUse, Unusable

    kept = folder / _KEPT
    with ExitStack() as stack:
        try:
            key, data = _key(kept), kept / "mcp"
            own = {"data": data, "api_key": key, **ANY_PORTS, **more}
            variables = {name: environment_variable(name) for name in (f"TRACEJURY_{each}" for each in _VARIABLES)}
            environ = {name: value for name, value in variables.items() if value is not None}
            try:
                url = stack.enter_context(server_here(load_settings(None, own, environ)))
            except InUse:
                holder = read_holder(data) or {}
                if not holder.get("http"):
                    raise
                url = reachable(holder["http"])
        except (BadSettings, Unusable) as error:
            raise click.ClickException(one_line(str(error))) from error
        except OSError as error:
            raise click.ClickException(one_line(f"{error.filename or kept}: {error.strerror}")) from error
        yield url, key


def _key(kept: Path) -> str:
    """Return the key of the folder's server; its file is readable by the owner alone."""
    file = kept / "mcp.key"
    if not file.exists():
        kept.mkdir(exist_ok=True)
        with whole_file(file) as opened:
            opened.write(secrets.token_urlsafe(32).encode())
        ignored = kept / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
    return file.read_text(encoding="utf-8").strip()
