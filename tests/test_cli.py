"""The command line against the real server, a data directory, and servers that are not ours."""

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import httpx
import pytest

from collector.app import Running
from collector.cli import client
from collector.cli.main import main
from tests import forking
from tests.serving import ANY_PORT, Answers, a_scripted_server, a_server, an_export, post, run, unused_port

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/api_calls.py",
    "collector/cli",
    "collector/conventions",
    "collector/listeners",
    "collector/gating",
    "collector/local_api.py",
    "collector/machine.py",
    "collector/otlp",
    "collector/reading",
    "collector/sample_rules",
    "storage/query",
    "storage/views",
)


def _commands(of: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    yield name, of
    for under, command in of.commands.items() if isinstance(of, click.Group) else ():
        yield from _commands(command, f"{name} {under}".strip())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server that holds two traces of different projects."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as server:
        for request in (an_export("a" * 32, "old"), an_export("b" * 32, "invoke", "chat", project="docs", at_s=60)):
            post(f"http://{server.http}/api/v1/traces", request.SerializeToString())
        assert server.store.wait_committed(10)
        yield server


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with one trace, left by a server that was stopped."""
    data = tmp_path_factory.mktemp("left") / "data"
    with a_server(data) as server:
        post(f"http://{server.http}/api/v1/traces", an_export("c" * 32, "kept").SerializeToString())
    return data


def test_traces_are_listed_newest_first(server: Running) -> None:
    """The list shows every trace, the newest first, as a table and as JSON."""
    listed = run("traces", "list", "--server", f"http://{server.http}")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["TRACE", "b" * 32, "a" * 32]
    documents = json.loads(run("traces", "list", "--server", server.http, "--json").stdout)
    assert [document["rootSpanName"] for document in documents] == ["invoke", "old"]


def test_a_list_can_be_of_one_project_and_short(server: Running) -> None:
    """`--project` and `--limit` restrict the list."""
    of_project = run("traces", "list", "--server", server.http, "--project", "shop", "--json")
    assert [document["traceId"] for document in json.loads(of_project.stdout)] == ["a" * 32]
    limited = run("traces", "list", "--server", server.http, "--limit", 1, "--json")
    assert [document["traceId"] for document in json.loads(limited.stdout)] == ["b" * 32]


def test_a_trace_is_shown_as_a_tree_and_as_json(server: Running) -> None:
    """`traces show` prints the spans with their inputs, or the document of the API."""
    shown = run("traces", "show", "B" * 32, "--server", server.http).stdout
    assert "invoke   " in shown
    assert "└─ chat " in shown
    assert "input   asked chat" in shown
    document = json.loads(run("traces", "show", "b" * 32, "--server", server.http, "--json").stdout)
    with httpx.Client(trust_env=False) as client:
        assert document == client.get(f"http://{server.http}/api/v1/traces/{'b' * 32}").json()


def test_a_trace_that_is_not_there_is_said(server: Running, directory: Path) -> None:
    """An unknown id is an error in one sentence, at a server and in a directory."""
    for where in (("--server", server.http), ("--data", directory)):
        result = run("traces", "show", "0" * 32, *where)
        assert result.exit_code == 1
        assert result.stderr == f"Error: no trace {'0' * 32} here; `tracejury traces list` shows the newest\n"


def test_a_shown_trace_can_be_sent_again(server: Running, tmp_path: Path) -> None:
    """What `traces show --otlp` writes is what `send` takes."""
    file = tmp_path / "trace.json"
    file.write_text(run("traces", "show", "b" * 32, "--otlp", "--server", server.http).stdout)
    sent = run("send", file, "--server", f"http://{server.otlp_http}")
    assert (sent.exit_code, sent.stdout) == (0, f"{file}: 2 spans in 1 request\n")


def test_sql_is_answered_as_table_json_and_csv(server: Running) -> None:
    """One answer, three ways to read it."""
    question = "SELECT name, count(*) AS n FROM spans WHERE project = 'docs' GROUP BY name ORDER BY name"
    table = run("sql", question, "--server", server.http).stdout
    assert [line.split() for line in table.splitlines()] == [
        ["name", "n"],
        ["chat", "1"],
        ["invoke", "1"],
        ["2", "rows"],
    ]
    rows = json.loads(run("sql", question, "--json", "--server", server.http).stdout)
    assert rows == [{"name": "chat", "n": 1}, {"name": "invoke", "n": 1}]
    text = run("sql", question, "--csv", "--server", server.http).stdout
    assert list(csv.reader(io.StringIO(text))) == [["name", "n"], ["chat", "1"], ["invoke", "1"]]


def test_sql_cannot_write(server: Running, directory: Path) -> None:
    """A statement that would change something is refused, at a server and in a directory."""
    for where in (("--server", server.http), ("--data", directory)):
        for statement in ("DROP VIEW spans", "SELEC", "SELECT 1; SELECT 2"):
            result = run("sql", statement, *where)
            assert result.exit_code == 1
            assert result.stderr.startswith("Error: ")
    assert run("sql", "SELECT count(*) FROM spans", "--csv", "--data", directory).stdout == "count_star()\n1\n"


def test_an_answer_that_was_cut_says_so(server: Running) -> None:
    """Rows beyond the limit are mentioned on standard error, so that no file is taken for whole."""
    result = run("sql", "FROM range(10001)", "--csv", "--server", server.http)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 10_001)
    assert "only the first 10,000 rows" in result.stderr


def test_a_directory_is_read_where_no_server_runs(directory: Path) -> None:
    """Every question can be asked of the files alone."""
    assert json.loads(run("traces", "list", "--data", directory, "--json").stdout)[0]["rootSpanName"] == "kept"
    assert "asked kept" in run("traces", "show", "c" * 32, "--data", directory).stdout
    otlp = json.loads(run("traces", "show", "c" * 32, "--otlp", "--data", directory).stdout)
    assert otlp["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] == "c" * 32
    assert run("sql", "SELECT name FROM spans", "--csv", "--data", directory).stdout == "name\nkept\n"


@pytest.mark.parametrize("comment", ["-- what there is\n", "--what there is\n", "-- 1\n--2\n", "/* - */ "])
def test_a_statement_may_open_with_a_comment(directory: Path, comment: str) -> None:
    """A comment of SQL before the statement is not taken for an option."""
    result = run("sql", f"{comment}SELECT name FROM spans", "--csv", "--data", directory)
    assert (result.exit_code, result.stdout) == (0, "name\nkept\n")


def test_a_directory_in_use_is_asked_through_its_server(server: Running) -> None:
    """`--data` finds the server that holds the directory."""
    holder = server.store._database.path.parent
    assert run("traces", "list", "--data", holder).stdout == run("traces", "list", "--server", server.http).stdout


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A list of a missing directory creates nothing, and names the directory."""
    result = run("traces", "list", "--data", tmp_path / "nothing")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: there is no data in {tmp_path / 'nothing'}; ")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_another_process_opens_is_said(directory: Path, tmp_path: Path) -> None:
    """A directory in use by something without an address is an error in one sentence, not a stack trace."""
    data = tmp_path / "data"
    shutil.copytree(directory, data)
    hold = (
        "import sys; from pathlib import Path; from storage.store import Store;"
        "store = Store.open(Path(sys.argv[1])); print(1, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(data)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
    ) as held:
        assert held.stdout is not None
        held.stdout.readline()
        result = run("traces", "list", "--data", data)
        held.kill()
    assert result.exit_code == 1
    assert "is in use" in result.stderr


def test_without_options_the_default_server_or_directory_is_asked(
    server: Running, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default server is asked first; if none listens, the default data directory is read."""
    monkeypatch.setattr(client, "DEFAULT_SERVER", f"http://{server.http}")
    assert "invoke" in run("traces", "list", env={"TRACEJURY_DATA": str(directory)}).stdout
    monkeypatch.setattr(client, "DEFAULT_SERVER", f"http://127.0.0.1:{unused_port()}")
    assert "kept" in run("traces", "list", env={"TRACEJURY_DATA": str(directory)}).stdout
    nowhere = run("traces", "list", env={"TRACEJURY_DATA": str(directory / "nothing")})
    assert nowhere.exit_code == 1
    assert "no server answers at" in nowhere.stderr
    assert "there is no data in" in nowhere.stderr


def test_the_environment_names_the_server_of_each_command(server: Running, directory: Path) -> None:
    """TRACEJURY_URL stands for --server; an option overrides it, and an unreachable server is an error."""
    here, away = {"TRACEJURY_URL": f"http://{server.http}"}, f"127.0.0.1:{unused_port()}"
    for command in (
        "status",
        "traces list",
        "datasets list",
        "keys list",
        "review list",
        "saved-views list",
        "rules list",
    ):
        assert run(*command.split(), env=here).exit_code == 0, command
        gone = run(*command.split(), env={"TRACEJURY_URL": away, "TRACEJURY_DATA": str(directory)})
        assert (gone.exit_code, away in gone.stderr) == (1, True), command
    assert "invoke" in run("traces", "list", "--server", server.http, env={"TRACEJURY_URL": away}).stdout
    assert "kept" in run("traces", "list", "--data", directory, env=here).stdout
    wrong = run("traces", "list", env={"TRACEJURY_URL": "ftp://x"})
    assert (wrong.exit_code, "TRACEJURY_URL" in wrong.stderr) == (2, True)
    assert '"http://127.0.0.1:9"' in run("mcp", "install", "cursor", env={"TRACEJURY_URL": "http://127.0.0.1:9"}).stdout


def test_every_command_that_asks_a_server_takes_it_from_the_environment() -> None:
    """Each option --server says so, but that of the command that sends to another door."""
    commands = {
        name: "TRACEJURY_URL" in (option.help or "")
        for name, command in _commands(main)
        for option in command.params
        if isinstance(option, click.Option) and option.name == "server"
    }
    assert {name for name, does in commands.items() if not does} == {"send"}
    assert len(commands) > 40


def test_bad_settings_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is not a setting is named."""
    monkeypatch.setattr(client, "DEFAULT_SERVER", f"http://127.0.0.1:{unused_port()}")
    result = run("traces", "list", env={"TRACEJURY_DTAA": "x"})
    assert result.exit_code == 1
    assert "TRACEJURY_DTAA: unknown setting" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["traces", "list", "--limit", "0"],
        ["traces", "list", "--server", "http://x", "--data", "y"],
        ["traces", "list", "--server", "ftp://x"],
        ["traces", "show"],
        ["traces", "show", "a", "--json", "--otlp"],
        ["sql", "SELECT 1", "--json", "--csv"],
        ["sql", "SELECT 1", "--jsno"],
        ["send"],
        ["send", "no-such-file"],
        ["serve", "--config", "no-such-file"],
        ["nonsense"],
    ],
)
def test_wrong_use_is_told_apart_from_failure(arguments: list[str]) -> None:
    """A command that was written wrongly exits with 2."""
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    "command", [[], ["serve"], ["traces"], ["traces", "list"], ["traces", "show"], ["sql"], ["send"]]
)
def test_every_command_explains_itself(command: list[str]) -> None:
    """`--help` works everywhere, and each option has its sentence."""
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


@pytest.fixture
def other() -> Iterator[str]:
    """Yield the URL of a server that is scripted by `Answers`."""
    with a_scripted_server() as url:
        yield url


@pytest.mark.parametrize(
    "status, body",
    [
        (200, b"<html>hello</html>"),
        (200, b"[]"),
        (200, b"{}"),
        (404, b"<html>no</html>"),
        (500, b"\xff"),
        (200, b'{"content": [{"traceId": 5}], "last": true}'),
        (200, b'{"columns": [], "rows": 1}'),
        (302, b""),
    ],
)
def test_a_server_that_is_not_ours_is_told_apart(other: str, status: int, body: bytes) -> None:
    """Whatever answers at the address, the error is one clear sentence."""
    Answers.queue.append((status, {}, body))
    for command in (["traces", "list"], ["traces", "show", "a"], ["sql", "SELECT 1"]):
        result = run(*command, "--server", other)
        assert result.exit_code == 1
        assert "a Tracejury server" in result.stderr


def test_a_hostile_error_cannot_touch_the_terminal(other: str) -> None:
    """The text of an error is made harmless like that of a span."""
    Answers.queue.append((400, {}, json.dumps({"error": "no \x1b[2J"}).encode()))
    result = run("sql", "SELECT 1", "--server", other)
    assert result.stderr == "Error: no \\x1b[2J\n"


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    """Nothing listening is an error with the address."""
    address = f"http://127.0.0.1:{unused_port()}"
    for command in (["traces", "list"], ["sql", "SELECT 1"], ["send", __file__]):
        result = run(*command, "--server", address)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: no server answers at {address}")


def test_more_traces_than_a_page_are_fetched(other: str) -> None:
    """The list goes on over pages, and a trace that moved to the next page meanwhile is listed once."""
    pages = [
        {"content": [a_summary(number) for number in (0, 1)], "last": False},
        {"content": [a_summary(number) for number in (1, 2)], "last": True},
    ]
    Answers.queue.extend((200, {}, json.dumps(page).encode()) for page in pages)
    result = run("traces", "list", "--server", other, "--limit", "1000", "--json")
    assert [document["traceId"] for document in json.loads(result.stdout)] == ["0", "1", "2"]
    assert [path for path, *_ in Answers.requests] == [f"/api/v1/traces?page={page}&size=100" for page in (0, 1)]


def a_summary(number: int) -> dict[str, object]:
    """Return one entry of a list of traces."""
    return {"traceId": str(number)}


def on_a_terminal(*arguments: object) -> str:
    """Run a command on a pseudo-terminal; return its output."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", "from collector.cli.main import main; main()", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "xterm", "COLUMNS": "100"}
    with forking.start(command, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        written = bytearray()
        with contextlib.suppress(OSError):  # which is how a terminal ends on Linux
            while chunk := os.read(ours, 65536):
                written += chunk
    os.close(ours)
    return written.decode()


def test_a_terminal_gets_colours_but_nothing_from_the_data(directory: Path) -> None:
    """On a terminal the output has our colours, and text from spans cannot add codes of its own."""
    assert "\x1b[" in on_a_terminal("traces", "list", "--data", directory)
    for form in ([], ["--csv"], ["--json"]):
        written = on_a_terminal("sql", "SELECT chr(27) || '[2J' AS a", *form, "--data", directory)
        assert "[2J" in written
        assert "\x1b[2J" not in written


def test_a_reader_that_leaves_early_is_no_failure(directory: Path) -> None:
    """`| head` ends the command without a stack trace."""
    program = "from collector.cli.main import main; main()"
    command = [sys.executable, "-c", program, "sql", "FROM range(9000)", "--csv", "--data", str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with forking.start(command, stdout=forking.PIPE, stderr=forking.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("command", [("evaluators",), ("gate", "results.json"), ("traces", "list")])
def test_a_reader_that_leaves_early_makes_no_verdict(command: tuple[str, ...], server: Running, tmp_path: Path) -> None:
    """Whatever prints, text, tables or a gate that passes: the exit code is that of SIGPIPE, and not 1."""
    item = {"id": "q", "input": "q", "evaluations": [{"evaluator": "exact", "score": 1.0, "threshold": 0.5}]}
    results = {"version": 1, "experimentName": "agent", "items": [item]}
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    program = [sys.executable, "-c", "from collector.cli.main import main; main()", *command]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TRACEJURY_URL": f"http://{server.http}"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        program, stdout=writing, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr) == (141, False), done.stderr


def test_serve_says_when_it_is_ready_and_stops_when_told(tmp_path: Path) -> None:
    """One JSON line on standard output, everything else on standard error, and SIGTERM ends it with 0."""
    command = [sys.executable, "-c", "from collector.cli.main import main; main()", "serve", "--sample"]
    addresses = ["--grpc", ANY_PORT, "--otlp-http", ANY_PORT, "--http", ANY_PORT, "--data", str(tmp_path / "data")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        [*command, *addresses], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = json.loads(process.stdout.readline())
        announcement = next(line for line in process.stderr if "Sample received" in line)
        listed = run("traces", "list", "--data", tmp_path / "data").stdout
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert ready["event"] == "ready"
    assert {"grpc", "otlp_http", "http", "data"} <= ready.keys()
    assert "11 spans over gRPC, 4 over HTTP" in announcement
    assert "support-agent" in listed
    assert (process.returncode, rest) == (0, "")
