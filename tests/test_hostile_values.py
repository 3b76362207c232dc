"""Extreme numbers and hostile texts, wherever a client can say something: no command, tool, form or body fails."""

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import click
import httpx
import pytest
from click.testing import CliRunner

from collector.cli.connecting import KEY_VARIABLE, URL_VARIABLE
from collector.cli.main import main
from collector.mcp.server import TOOLS
from tests.answers import the_document
from tests.live import NO_TLS
from tests.tenancy import TRACE, Tenancy, mark_of, two_tenants
from tests.test_extremes import BODIES, GET_ROUTES
from tests.walking import (
    EVIL,
    JSON_VALUES,
    NUMBERS,
    TEXTS,
    TIMES,
    PageForm,
    PageReader,
    arguments,
    changed_at,
    commands,
    example,
    places,
    some_of,
)

ARGUMENTS = (
    *NUMBERS,
    *TIMES,
    *(text for text in TEXTS if "\0" not in text and "\ud800" not in text),
    "\udc80 half",
    "--",
)
"""What an argument of a process can be; a byte that is not UTF-8 arrives as half of a surrogate pair."""

STARTING = {("serve",), ("mcp", "install")}
"""Commands that go on, or write into the home directory."""

SETTLING = {"/sign-out", "/sign-in", "/projects/backup"}
"""Forms that end the visit, or copy the database."""

OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OURS = re.compile(r"\x1b\[[0-9;]*m")  # of styles
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Walk:
    """A server with something of everything, a client of it, and what its commands are called with."""

    def __init__(self, tenancy: Tenancy, data: Path, folder: Path) -> None:
        self.tenancy = tenancy
        self.folder = folder
        self.data = data
        self.ids = {"digest": "x", "name": "x", "service": "shop", "tenant": "", **tenancy.ids[""]}
        url = f"http://{tenancy.server.running.http}"
        key = tenancy.key("")
        self.env = {URL_VARIABLE: url, KEY_VARIABLE: key}
        self.client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60, verify=NO_TLS, trust_env=False
        )

    def filled(self, template: str, **ids: str) -> str:
        """Return the path of a route, about what there is."""
        known = self.ids | ids
        return re.sub(
            r"\{(\w+)(?::\w+)?\}",
            lambda match: quote(known.get(match[1], "1"), safe="", errors="surrogatepass"),
            template,
        )

    def arguments(self, path: tuple[str, ...], command: click.Command, **changed: str) -> list[str]:
        """Return what a command is called with, about what there is."""
        items, rule = self.folder / "items.jsonl", self.folder / "rule.yaml"
        items.write_text('{"input": "a"}\n')
        rule.write_text("name: t\nevaluator: tool_error\n")
        mark = mark_of("")
        known = {
            **self.ids, "statement": "SELECT 1", "verdict": "CORRECT", "version": "qa@1", "query": "project=shop",
            "session_id": mark, "name": "judge" if path[0] == "connections" else "qa", "experiment": f"qa {mark}",
            "run": self.ids["candidate_id"], "baseline": self.ids["candidate_id"],
            "candidate": self.ids["candidate_id"], "rule": self.ids["rule_id"], "queue": self.ids["queue_id"],
            "view": self.ids["view_id"], "ids": self.ids["job_id"], "file": str(rule if path[0] == "rules" else items),
            "directory": str(self.folder / "out"), "--from": "2026-11-20", "--until": "2030-01-01T00:00:00Z",
            "--evaluator": "exact_match", "--role": "VIEWER", "--data": str(self.folder / "none"),
        }  # fmt: skip
        if path == ("rules", "backfill"):
            known["name"] = self.ids["rule_id"]
        known |= dict.fromkeys(("files", "case", "results"), str(items))
        return [*path, *arguments(command, known, **changed)]


@pytest.fixture(name="walk", scope="module")
def a_walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Start one server for all tests."""
    data = tmp_path_factory.mktemp("hostile") / "data"
    with two_tenants(data) as tenancy:
        walk = Walk(tenancy, data, tmp_path_factory.mktemp("files"))
        with walk.client:
            yield walk


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands in a folder of their own, since arguments name files that they write."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(name="failed")
def what_failed() -> Iterator[list[str]]:
    """Collect failures; report them together at the end."""
    failed: list[str] = []
    yield failed
    assert failed == []


NOTED = {"audit", "api_key"}
"""Tables that a GET may change: the audit of who asked, and when a key was last used."""

WORKED_ON = {"alert_delivery", "deletion", "metric_monitor", "trusted_time"}
"""Tables whose rows the server changes by itself meanwhile: deliveries, deletions, what monitors saw last, the time."""


@pytest.mark.costly("collector/api", "collector/web", "storage")
def test_a_get_changes_nothing(walk: Walk) -> None:
    """No page and no answer of the API writes a row or a file, but for the audit and the times when keys were used."""
    names = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT internal"
    tables = sorted({str(name) for (name,) in walk.tenancy.rows(names)} - NOTED)
    assert set(tables) >= WORKED_ON

    def state() -> dict[str, object]:
        digests = {table: "0" if table in WORKED_ON else f"bit_xor(hash({table}::VARCHAR))" for table in tables}
        counted = " UNION ALL ".join(f"SELECT '{each}', count(*), {digests[each]} FROM {each}" for each in tables)
        folder = walk.data
        files = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        with walk.tenancy.store._database.cursor() as cursor:  # clients' SQL would be looked at for much longer
            return {str(row[0]): row[1:] for row in cursor.execute(counted).fetchall()} | {"files": sorted(files)}

    before: dict[str, object] = {}
    while before != (before := state()):
        time.sleep(0.5)  # until the last requests have been processed
    for template in GET_ROUTES:
        walk.client.get(walk.filled(template))
    after = state()
    assert {name: (before[name], after[name]) for name in before if before[name] != after[name]} == {}


@pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/datasets",
    "collector/evaluation",
    "collector/gating",
    "collector/local_api.py",
    "collector/plan_file.py",
    "evaluators",
    "rules",
    "storage",
)
def test_no_command_ends_with_a_traceback(walk: Walk, failed: list[str]) -> None:
    """Whatever an argument is, a command does its work or reports the error in a sentence."""
    for path, command in commands(main):
        for each in command.params if path not in STARTING else ():
            if getattr(each, "is_flag", False) or (each.name in {"server", "data"} and path != ("traces", "list")):
                continue
            for value in some_of(ARGUMENTS, f"{path}{each.name}", 1):
                called = walk.arguments(path, command, **{str(each.name): value})
                result = CliRunner(env=walk.env).invoke(main, called, input="")
                if result.exception is not None and not isinstance(result.exception, SystemExit):
                    failed.append(f"{[part[:60] for part in called]}: {result.exception!r}"[:400])


@pytest.mark.costly("collector/cli")
@pytest.mark.parametrize(
    "called, message",
    [
        (("traces", "list", "--project=\udc80 half"), "'--project': '\\udc80 half' is not UTF-8"),
        (("traces", "show", "\udc80"), "'TRACE_ID': '\\udc80' is not UTF-8"),
        (("traces", "list", f"--project={'a' * 100_000}"), "pass shorter ones"),
        (("traces", "list", f"--data={'a' * 400}"), "File name too long"),
        (("gate-report", f"--verdict-dir={'a' * 400}"), "File name too long"),
        (("experiments", "gate", "--margin=1e400", "run"), "'--margin': inf is not a finite number"),
        (("review", "add", "--share=nan", "queue"), "'--share': nan is not a finite number"),
        (("experiments", "evaluate", "--evaluator=regex", "--config=NaN", "run"), "--config is not JSON: NaN"),
        (("experiments", "evaluate", "--evaluator=regex", '--config={"a": 1e400}', "run"), "1e400 is too large"),
        (("rules", "backfill", "rule", "--from=99999999d"), "is not a time: write 2026-11-21"),
    ],
)
def test_a_command_names_the_argument_that_is_wrong(walk: Walk, called: tuple[str, ...], message: str) -> None:
    """A text that neither JSON, an address nor the file system can carry is an error that names the argument."""
    result = CliRunner(env=walk.env).invoke(main, called)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code != 0
    assert message in result.stderr


@pytest.mark.costly(
    "collector/api",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/mcp",
    "evaluators",
    "rules",
    "storage",
)
def test_no_tool_fails(walk: Walk, failed: list[str]) -> None:
    """Whatever an argument of a tool of the protocol for models is, the answer is not an internal error."""
    for tool in TOOLS:
        schema = tool.arguments.model_json_schema()
        whole = example(schema, schema.get("$defs", {}), walk.ids)
        for place in places(whole):
            for value in some_of(JSON_VALUES, f"{tool.name}{place}"):
                answer = call(walk, tool.name, changed_at(whole, place, value))
                if answer.status_code >= 500 or '"code":-32603' in answer.text or '"code":0,' in answer.text:
                    failed.append(f"{tool.name} {place} {value[:60]}: {answer.text[:500]}")


def call(walk: Walk, tool: str, value: str) -> httpx.Response:
    """Return the answer to the call of a tool."""
    body = (
        f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{tool}", "arguments": {value}}}}}'
    )
    return walk.client.post("/mcp", content=body.encode(errors="surrogatepass"), headers=JSON)


def test_a_tool_names_the_number_that_is_not_finite(walk: Walk) -> None:
    """The answer names the place of the number, wherever that is."""
    answer = call(walk, "annotate", f'{{"trace_id": "{TRACE}", "name": "n", "score": 1e400}}').json()
    assert answer["result"]["isError"]
    assert "score: must be finite" in answer["result"]["content"][0]["text"]


@pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/connection_text.py",
    "collector/datasets",
    "collector/delivery",
    "collector/evaluation",
    "collector/experiments",
    "collector/gating",
    "collector/live",
    "collector/metric_monitor_text.py",
    "evaluators",
    "rules",
    "storage",
)
def test_no_body_fails(walk: Walk, failed: list[str]) -> None:
    """Whatever stands at a place of a body of the API, the answer is an error of the client or none."""
    document = the_document()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            whole = content and example(content["schema"], document["components"]["schemas"], walk.ids)
            query = f"?{urlencode({'sessionId': walk.ids['session_id']})}" if "session-annotation" in path else ""
            for place in places(whole) if content else ():
                for value in some_of(JSON_VALUES, f"{method}{path}{place}", 3):
                    body = changed_at(whole, place, value).encode(errors="surrogatepass")
                    answer = walk.client.request(method, walk.filled(path) + query, content=body, headers=JSON)
                    if answer.status_code >= 500:
                        failed.append(f"{method} {path} {place} {value[:60]}: {answer.text[:200]}")


@pytest.mark.parametrize(
    "path, body",
    [
        ("/api/v1/datasets/{dataset_id}/versions", '{"items": [{"\\ud800": 1}]}'),
        ("/api/v1/projects/shop/runs", '{"experimentName": "e", "metadata": {"\\ud800": 1}}'),
        ("/api/v1/projects/shop/runs", '{"experimentName": "e", "metadata": {"a": NaN}}'),
    ],
)
def test_a_body_that_cannot_be_stored_is_refused(walk: Walk, path: str, body: str) -> None:
    """Half of a surrogate pair in a key, which the answer repeats, and a NaN in metadata get 400 with their place."""
    answer = walk.client.post(walk.filled(path), content=body, headers=JSON)
    assert answer.status_code == 400
    assert "items[0]" in answer.text or "metadata" in answer.text or "not JSON" in answer.text


@cache
def looked_at(walk: Walk) -> tuple[dict[str, dict[str, str]], list[PageForm]]:
    """Return the query parameters of each page, with the rest of such a query, and the posted forms."""
    parameters: dict[str, dict[str, str]] = defaultdict(dict)
    forms: dict[tuple[str, frozenset[str]], PageForm] = {}
    for template in GET_ROUTES:
        if template.startswith("/api/"):
            continue
        answer = walk.client.get(walk.filled(template))
        page = PageReader(walk.filled(template), answer.text)
        sought = [f"{each.action}?{urlencode(each.fields)}" for each in page.forms if each.method == "get"]
        for link in [*page.links, *sought]:
            parts = urlsplit(link)
            for name, _ in parse_qsl(parts.query, keep_blank_values=True):
                parameters[parts.path or page.path].setdefault(name, parts.query)
        for each in page.forms:
            if each.method == "post" and each.action not in SETTLING:
                forms.setdefault((template_of(each.action), frozenset(each.fields)), each)
    return parameters, list(forms.values())


def template_of(path: str) -> str:
    """Return a path without the ids in it."""
    return re.sub(r"[0-9a-f-]{8,}", "ID", path)


@pytest.mark.costly("collector/api", "collector/web", "rules", "storage")
def test_no_parameter_of_a_page_fails(walk: Walk, failed: list[str]) -> None:
    """Whatever a query parameter of a page is, the page is shown or reports the error."""
    parameters, _ = looked_at(walk)
    assert sum(map(len, parameters.values())) > 50
    for path, queries in parameters.items():
        for name, query in queries.items():
            for value in some_of((*NUMBERS, *TIMES, *TEXTS[:3]), f"{template_of(path)}{name}"):
                query_string = urlencode({**dict(parse_qsl(query)), name: value[:5_000]})
                answer = walk.client.get(f"{path}?{query_string}")
                if answer.status_code >= 500:
                    failed.append(f"{path} {name}={value[:60]}: {answer.status_code}")


@pytest.mark.costly(
    "collector/api",
    "collector/connection_text.py",
    "collector/datasets",
    "collector/delivery",
    "collector/evaluation",
    "collector/live",
    "collector/web",
    "evaluators",
    "rules",
    "storage",
)
def test_no_form_fails(walk: Walk, failed: list[str]) -> None:
    """Whatever a field of a page's form holds, the form is accepted or the page reports the error."""
    _, forms = looked_at(walk)
    assert sum(len(each.fields) for each in forms) > 100
    for each in forms:
        for name in sorted({*each.fields, *each.empty} - {"csrf"}):
            for value in some_of((*NUMBERS, *TIMES, *TEXTS), f"{template_of(each.action)}{name}", 1):
                body = urlencode({**each.fields, name: value}, errors="surrogatepass")
                answer = walk.client.post(each.action, content=body, headers=FORM)
                if answer.status_code >= 500:
                    failed.append(f"{each.action} {name}={value[:60]}: {answer.status_code}")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_a_backfill_of_a_page_takes_any_instant(walk: Walk, moment: str) -> None:
    """An instant that no span can have is the nearest that one can, as in the API."""
    first, last = (moment, "2026-11-22T00:00") if moment < "2026" else ("2026-11-20T00:00", moment)
    body = urlencode({"from": first, "to": last})
    answer = walk.client.post(f"/rules/{walk.ids['rule_id']}/backfills", content=body, headers=FORM)
    assert answer.status_code == 303


class _Screen(StringIO):
    """The output of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.costly("collector/api", "collector/cli", "collector/escaping.py")
def test_no_command_prints_what_a_terminal_obeys(walk: Walk, failed: list[str]) -> None:
    """Names and texts that hold escape sequences reach a terminal escaped, whatever command prints them."""
    for name, body in BODIES.items():
        method, _, path = name.partition(" ")
        text = json.dumps(body).replace("extreme", json.dumps(EVIL)[1:-1])
        text = re.sub(r"\{(\w+)\}", lambda match: walk.ids.get(match[1], match[0]), text)
        walk.client.request(method, walk.filled(path), content=text, headers=JSON)
    printed = 0
    for words, command in commands(main):
        for flags in ([], ["--json"]) if words not in STARTING else ():
            if flags and all(option.name != "as_json" for option in command.params):
                continue
            called = [*words, *flags, *walk.arguments(words, command)[len(words) :]]
            written = on_a_screen(walk, called)
            printed += "owned" in written
            if OBEYED.search(OURS.sub("", written)):
                failed.append(f"{called}: {written!r}"[:500])
    assert printed > 5


def on_a_screen(walk: Walk, called: list[str]) -> str:
    """Return what a command writes to a terminal."""
    screen = _Screen()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(screen), redirect_stderr(screen):
        for name, value in (walk.env | {"TERM": "xterm-256color", "COLUMNS": "200"}).items():
            patched.setenv(name, value)
        patched.setattr(sys, "stdin", StringIO(""))
        with suppress(SystemExit):
            main(called)
    return screen.getvalue()
