"""The runs of programs in their own environments, whose exports are kept beside the truth."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conventions.programs_reading import Score
from tests.corpus.record import otlp_json
from tests.corpus.record.model_server import serving
from tests.corpus.record.recording import environment, forget_the_machine, received
from tests.programs import truth
from tests.programs.apps import shop
from tests.programs.server import ProgramsServer

FOLDER = Path(__file__).parent
APPS = FOLDER / "apps"
CATALOGUE: Mapping[str, Mapping[str, Any]] = tomllib.loads((FOLDER / "catalogue.toml").read_text(encoding="utf-8"))
INSTALL_S, RUN_S = 900, 300
NICE = ("nice", "-n", "10")
_ABOUT_PLUMBING = ("opentelemetry-exporter", "opentelemetry-sdk", "@opentelemetry/", "zod")


_SHOP = {  # what programs of Node know of shop.py
    "system": shop.SYSTEM,
    "prompts": shop.PROMPTS,
    "model": shop.MODEL,
    "pixel": shop.PIXEL,
    "descriptions": {name: says for name, (says, _) in shop.TOOLS.items()},
    "tools": shop.CHAT_TOOLS,
}


class CannotRecord(Exception):
    """The error of a program that cannot be installed or run here; the message says why."""


class Recorded(NamedTuple):
    """The recording of a program: a name for each trace."""

    program: str
    versions: Mapping[str, str]
    names: Sequence[str]
    problems: Sequence[str]


class Result(NamedTuple):
    """The score of a program's reading."""

    program: str
    versions: Mapping[str, str]
    scores: Sequence[Score]
    mistakes: Sequence[str]
    problems: Sequence[str]


def record(program: str, folder: Path) -> Recorded:
    """Record one program: its payloads and the truth, a trace each, in a folder.

    Raises:
        CannotRecord: It cannot be installed, or exports nothing of any scenario.
    """
    entry = CATALOGUE[program]
    if reason := entry.get("missing"):
        raise CannotRecord(reason)
    with tempfile.TemporaryDirectory(prefix="program-") as name, serving(ProgramsServer()) as server:
        place = Path(name)
        versions = install(entry, place)
        scenarios, errors = run(program, entry, place, server)
        names = write(program, server, folder, place)
    recorded = {name.split(".")[1] for name in names}
    problems = [f"{program}: no trace of the scenario {one}" for one in scenarios if one not in recorded]
    if problems or not scenarios:
        problems.append(errors)
    if not names:
        raise CannotRecord("\n".join(problems) or f"no trace with one of {len(server.world.exchanges)} answers")
    return Recorded(program, versions, names, problems)


def install(entry: Mapping[str, Any], place: Path) -> dict[str, str]:
    """Install the newest releases of a program's packages, and return their versions."""
    if packages := entry.get("npm"):
        (place / "package.json").write_text('{"type": "module", "private": true}', encoding="utf-8")
        _command("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages, at=place)
        listed = json.loads(_command("npm", "ls", "--json", "--depth=0", at=place))["dependencies"]
        return {name: one["version"] for name, one in listed.items() if not name.startswith(_ABOUT_PLUMBING)}
    uv, python = str(Path(sys.executable).with_name("uv")), str(place / "bin" / "python")
    _command(uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(place), at=place)
    _command(uv, "pip", "install", "--quiet", "--python", python, *entry["pip"], at=place)
    listed = json.loads(_command(uv, "pip", "list", "--format", "json", "--python", python, at=place))
    versions = {one["name"]: one["version"] for one in listed}
    named = [package.split("[")[0].split("=")[0].split("<")[0] for package in entry["pip"]]
    return {name: versions[name] for name in named if not name.startswith(_ABOUT_PLUMBING)}


def run(program: str, entry: Mapping[str, Any], place: Path, server: ProgramsServer) -> tuple[list[str], str]:
    """Run a program until it ends, and return the scenarios that it ran, and its errors."""
    script, *arguments = entry["script"]
    env = environment_of(program, place, server)
    if "npm" in entry:
        for file in APPS.glob("*.mjs"):
            shutil.copy(file, place)
        command = ["node", str(place / script), *arguments]
    else:
        command = [str(place / "bin" / "python"), str(APPS / script), *arguments]
    env |= {name: value.replace("{url}", server.url) for name, value in entry.get("env", {}).items()}
    try:
        done = subprocess.run(
            [*NICE, *command], cwd=place, env=env, capture_output=True, text=True, timeout=RUN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return [], f"{program} was stopped after {RUN_S} s"
    return re.findall(r"^scenario (\S+)$", done.stdout, re.MULTILINE), _end_of(done.stderr)


def environment_of(program: str, place: Path, server: ProgramsServer) -> dict[str, str]:
    """Return what a program's process needs to reach the server, and nothing else."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "SCENARIOS") if name in os.environ}
    env = inherited | environment(program, server.url) | {"HOME": str(place), "MODEL_URL": server.url}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "SHOP": json.dumps(_SHOP)}
    env |= {"GOOGLE_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": server.url, "OPENAI_API_BASE": env["OPENAI_BASE_URL"]}
    is_node = (place / "package.json").exists()  # which uses no proxy
    return env | {"OPENAI_BASE_URL": f"{server.url}/v1"} if is_node else env


def write(program: str, server: ProgramsServer, folder: Path, place: Path) -> list[str]:
    """Write each trace that has calls of the model, with the truth beside it."""
    messages = received(server.received)
    traces = messages.get("traces") or ExportTraceServiceRequest()
    logs = messages.get("logs") or ExportLogsServiceRequest()
    assert isinstance(traces, ExportTraceServiceRequest)
    assert isinstance(logs, ExportLogsServiceRequest)
    spans = truth.spans_of(traces, logs)
    names = []
    has_model_spans = CATALOGUE.get(program, {}).get("model-spans", True)
    for one in truth.truths(server.world.exchanges, spans, has_model_spans=has_model_spans):
        name = f"{program}.{one.exchanges[0].scenario}.{one.trace_id[-6:]}"
        parts = {"json": _only(one.trace_id, traces), "logs.json": _only(one.trace_id, logs)}
        for ending, part in parts.items():
            if part.ListFields():
                forget_the_machine(part)
                text = otlp_json.dumps(part).replace(str(place), "/venv").replace(str(FOLDER), "/app")
                (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")
        expected = otlp_json.pretty(truth.expectation(one, spans, program))
        (folder / f"{name}.expected.json").write_text(expected, encoding="utf-8")
        names.append(name)
    return names


def _only(trace_id: str, request: Message) -> Message:
    """Return a request of the spans or log records of one trace."""
    kept = type(request)()
    kept.CopyFrom(request)
    for _, groups in kept.ListFields():
        for group in list(groups):
            scopes = group.scope_spans if hasattr(group, "scope_spans") else group.scope_logs
            for scope in list(scopes):
                rows = scope.spans if hasattr(scope, "spans") else scope.log_records
                own = [row for row in rows if row.trace_id.hex() == trace_id]
                del rows[:]
                rows.extend(own)
                if not own:
                    scopes.remove(scope)
            if not scopes:
                groups.remove(group)
    return kept


def _command(*command: str, at: Path) -> str:
    try:
        done = subprocess.run([*NICE, *command], cwd=at, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRecord(str(error)) from error
    except subprocess.CalledProcessError as error:
        raise CannotRecord(f"{' '.join(command[:3])}: {_end_of(error.stderr)}") from error
    return done.stdout


def _end_of(text: str) -> str:
    return text.strip()[-1500:]
