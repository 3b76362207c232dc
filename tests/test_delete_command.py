"""`tracejury delete`: traces and projects, after a question."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access import a_closed_server
from tests.live import a_client, until
from tests.serving import PROTOBUF, a_server, an_export, run

pytestmark = pytest.mark.costly("collector/api", "collector/cli", "collector/live/upkeep", "storage")

TRACES = tuple(f"{number:032x}" for number in range(1, 5))


@pytest.fixture
def at(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Yield a server with three traces of one project and one of another; yields how to reach it."""
    with a_server(tmp_path / "data") as server, a_client() as client:
        for number, trace in enumerate(TRACES):
            export = an_export(trace, "root", "child", project="other" if number == 3 else "team/app", at_s=number * 60)
            headers = {"content-type": PROTOBUF}
            client.post(f"http://{server.otlp_http}/v1/traces", content=export.SerializeToString(), headers=headers)
        traces = f"http://{server.http}/api/v1/traces"
        until(lambda: client.get(traces).json()["content"], lambda content: len(content) == len(TRACES))
        yield "--server", f"http://{server.http}"


def left(at: tuple[str, str]) -> set[str]:
    """Return the traces that are there."""
    listed = run("sql", "--csv", "SELECT trace_id FROM traces", *at)
    return set(listed.output.split()[1:])


def test_a_project_goes_after_a_question(at: tuple[str, str]) -> None:
    """A dry run counts, no answer deletes nothing, and `--yes` deletes the traces of the project and no others."""
    dry = run("delete", "--project", "team/app", "--dry-run", *at)
    assert dry.output == "would delete 3 traces with 6 spans of project team/app\n"
    result = run("delete", "--project", "team/app", *at)
    assert result.exit_code == 1
    assert "Delete 3 traces with 6 spans of project team/app for good?" in result.output
    assert left(at) == set(TRACES)
    some = run("delete", "--project", "team/app", "--before", "2026-11-21T10:01:00Z", "--yes", *at)
    assert "deleting 1 trace with 2 spans" in some.output, some.output
    until(lambda: left(at), lambda traces: traces == set(TRACES[1:]))
    done = run("delete", "--project", "team/app", "--yes", *at)
    assert "deleting 2 traces with 4 spans" in done.output, done.output
    until(lambda: left(at), lambda traces: traces == {TRACES[3]})


def test_a_trace_goes_and_what_is_not_there_is_said(at: tuple[str, str]) -> None:
    """One trace is named by its id; a missing trace, or no id, is refused."""
    done = run("delete", "--trace", TRACES[0].upper(), "--yes", *at)
    assert done.exit_code == 0, done.output
    until(lambda: left(at), lambda traces: traces == set(TRACES[1:]))
    for option, value, reason in (("--trace", "f" * 32, "no trace"), ("--project", "nobody's", "nothing of")):
        again = run("delete", option, value, "--yes", *at)
        assert again.exit_code == 1
        assert reason in again.output
    wrong: tuple[tuple[str, ...], ...] = (
        (),
        ("--trace", TRACES[1], "--project", "other"),
        ("--trace", TRACES[1], "--before", "2026-01-01"),
    )
    for bad in wrong:
        assert run("delete", *bad, "--yes", *at).exit_code == 2
    assert left(at) == set(TRACES[1:])


def test_a_tenant_deletes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ADMIN key of a tenant counts and deletes the traces of its tenant, and those of no tenant stay."""
    with a_closed_server(tmp_path / "data") as server, a_client() as client:
        for number, trace in enumerate(TRACES):
            key = server.keys["ingest" if number == 3 else "ingest of acme"]
            export = an_export(trace, "root", "child", project="app", at_s=number * 60).SerializeToString()
            headers = {"content-type": PROTOBUF, "authorization": f"Bearer {key}"}
            client.post(f"http://{server.running.otlp_http}/v1/traces", content=export, headers=headers)
        server.running.store.wait_committed(60)
        server.running.traces.wait_idle(60)
        monkeypatch.setenv("TRACEJURY_API_KEY", server.keys["admin of acme"])
        at = "--server", f"http://{server.running.http}"
        assert run("delete", "--trace", TRACES[3], "--yes", *at).exit_code == 1
        for options, size in (
            (("--project", "app", "--dry-run"), "would delete 3 traces with 6 spans"),
            (("--project", "app", "--before", "2026-11-21T10:01:00Z", "--yes"), "deleting 1 trace with 2 spans"),
            (("--trace", TRACES[1], "--yes"), "deleting 1 trace with 2 spans"),
            (("--project", "app", "--tenant", "acme", "--yes"), "deleting 1 trace with 2 spans"),
        ):
            done = run("delete", *options, *at)
            assert size in done.output, done.output
        monkeypatch.setenv("TRACEJURY_API_KEY", server.keys["admin"])
        until(lambda: left(at), lambda traces: traces == {TRACES[3]})
