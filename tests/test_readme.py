"""The README and its linked pages, as a new user follows them: examples run unchanged, on the sample."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from collector.app import Running
from collector.sample import SampleReport, send_sample
from storage.records import Trace
from tests.access import request
from tests.live import until
from tests.serving import a_server, run
from tests.source_tree import PACKAGES, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LED_TO = ("evaluating", "operations", "dashboards", "configuration")
DOCS = {page: (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in LED_TO}
EVALUATING = DOCS["evaluating"].partition("\n## One case at a time\n")[2].partition("\n## ")[0]


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a section's examples with the output shown for it."""
    for block in re.findall(r"^```\n(\$ .*?)^```$", text, re.MULTILINE | re.DOTALL):
        for step in block.removeprefix("$ ").split("\n$ "):
            command, *shown = step.rstrip("\n").split("\n")
            yield command, list(takewhile(lambda line: "…" not in line, shown))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield an empty server."""
    with a_server(tmp_path_factory.mktemp("readme") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def report(server: Running) -> SampleReport:
    """Return the sample, which the server has."""
    sent = send_sample(grpc=server.grpc, otlp_http=server.otlp_http)
    assert server.store.wait_committed(20)
    assert server.traces.wait_idle(20)
    return sent


def test_the_sample_has_the_ids_that_the_readme_names(report: SampleReport) -> None:
    """Each trace is listed as the command prints it, so that its id can be pasted."""
    for trace in report.traces:
        assert f"  {trace.trace_id}  {trace.service_name:<14}  {trace.about}" in README
    named = set(re.findall(r"--trace ([0-9a-f]{32})|traces show ([0-9a-f]{32})", README + EVALUATING))
    assert {"".join(each) for each in named} <= set(report.trace_ids)


def test_the_sample_is_the_same_whenever_it_is_sent(server: Running, report: SampleReport) -> None:
    """Traces and spans keep their ids."""
    spans = [{span.span_id for span in trace.spans} for trace in traces_of(server, report)]
    assert send_sample(grpc=server.grpc, otlp_http=server.otlp_http).trace_ids == report.trace_ids
    assert server.store.wait_committed(20)
    again = [{span.span_id for span in trace.spans} for trace in traces_of(server, report)]
    assert again == spans


def traces_of(server: Running, report: SampleReport) -> list[Trace]:
    """Return the traces of the sample as they are stored."""
    stored = [server.store.queries.trace(trace_id) for trace_id in report.trace_ids]
    return [trace for trace in stored if trace is not None]


def test_examples_of_evaluations_run_as_they_stand(
    server: Running, report: SampleReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files have the shown contents, and each command prints the shown output."""
    assert report.traces
    monkeypatch.chdir(tmp_path)
    ran = 0
    for command, shown in steps(EVALUATING):
        typed, *arguments = shlex.split(command.partition(" > ")[0])
        if typed == "cat":
            Path(arguments[0]).write_text("\n".join(shown) + "\n")
        elif shown:
            where = ["--server", server.http] if "--trace" in arguments else []
            result = run(*arguments, *where)
            assert [line for line in shown if line not in result.output.splitlines()] == [], result.output
            ran += 1
    assert ran == 4


def test_what_examples_write_is_outside_of_the_program() -> None:
    """Running them in the working copy makes no file in a package of ours."""
    ours = "|".join(PACKAGES)
    blocks = re.findall(r"^```\w*\n(.*?)^```$", "\n".join([README, *DOCS.values()]), re.MULTILINE | re.DOTALL)
    for block in blocks:
        assert not re.search(rf"(?<![\w/-])(?:{ours})/|^rules: (?:{ours})$|--\w+ (?:{ours})\b", block), block


def test_the_curl_example_is_answered_as_it_is_shown(server: Running) -> None:
    """The body that a shell makes of it is taken, with the answer that is shown, and is the newest trace."""
    (example,) = re.findall(r"^(NOW=.*?-d '\{\n.*?\n\}')\n```", README, re.DOTALL | re.MULTILINE)
    (answer,) = re.findall(r"^\{\"acceptedSpans\".*\}$", README, re.MULTILINE)
    last_argument = 'curl() { for each; do :; done; printf %s "$each"; }\n'
    body = subprocess.run(["sh", "-c", last_argument + example], capture_output=True, check=True).stdout
    headers = {"content-type": "application/json"}
    response = request(f"http://{server.http}/api/v1/traces", "POST", content=body, headers=headers)
    assert (response.status_code, response.text) == (200, answer)
    assert server.store.wait_committed(20)
    until(
        lambda: request(f"http://{server.http}/api/v1/traces?size=1").json()["content"],
        lambda newest: [each["traceId"] for each in newest] == ["5b8efff798038103d269b633813fc60c"],
    )


def test_rules_of_the_documents_are_none_of_the_sample() -> None:
    """A rule by the name of one of the sample would show each result of its walk twice."""
    sample = {yaml.safe_load(file.read_text())["name"] for file in (ROOT / "collector" / "sample_rules").glob("*.yaml")}
    pages = [README, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))]
    named = {name.strip() for page in pages for name in re.findall(r"^name: ([^#{\n]+)", page, re.MULTILINE)}
    assert len(named) > 5
    assert named & sample == set()
