"""`tracejury evaluate` and `tracejury evaluators`: one case, many, stored traces, eval sets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from collector.app import Running
from collector.cli.main import main
from collector.evaluation import batch
from collector.evaluation.recorded import recordings_in
from collector.evaluation.trace_case import passages_in
from collector.otlp import json_request
from evaluators.registry import KINDS
from tests.evaluating import call, called, outputs
from tests.serving import a_server, post
from tests.source_tree import ROOT

CORPUS = sorted((ROOT / "tests" / "corpus").glob("*/*/traces.json"))
AGENT = ROOT / "tests" / "corpus" / "pydantic-ai" / "parallel-tool-calls" / "traces.json"
TOOLS = ["get_temperature", "get_humidity"]


def tracejury(*arguments: object, stdin: bytes | str | None = None) -> Result:
    """Run a command in this process with this standard input."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def evaluated(*arguments: object, stdin: object) -> tuple[int, Any]:
    """Return exit code and printed document of one evaluation of a case on standard input."""
    result = tracejury("evaluate", *arguments, "-", stdin=json.dumps(stdin))
    return result.exit_code, json.loads(result.stdout)


def answers(*lines: bytes | Mapping[str, Any]) -> tuple[Result, list[Any]]:
    """Evaluate a batch of these lines."""
    stdin = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    result = tracejury("evaluate", "--batch", "-", stdin=stdin)
    return result, [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    "evaluator, config, case, code, outcome",
    [
        ("exact_match", "{}", outputs("a", "a"), 0, "verdict"),
        ("exact_match", "{}", outputs("a", "b"), 1, "verdict"),
        ("exact_match", "{}", outputs("a"), 2, "failure"),
        ("exact_match", "{}", {"output": "a"}, 2, "failure"),
        ("exact_match", '{"treshold": 1}', outputs("a", "a"), 2, "failure"),
        ("exact_macth", "{}", outputs("a", "a"), 2, "failure"),
        ("tool_error", '{"whenVacuous": "SKIP"}', called(), 0, "skipped"),
    ],
)
def test_exit_code_says_how_it_ended(
    evaluator: str, config: str, case: Mapping[str, Any], code: int, outcome: str
) -> None:
    """0 when it passes or there is nothing to judge, 1 when it does not pass, 2 when it cannot be judged."""
    exit_code, document = evaluated("--evaluator", evaluator, "--config", config, stdin=case)
    assert (exit_code, document["outcome"]) == (code, outcome)


def test_case_and_configuration_come_from_files(tmp_path: Path) -> None:
    """A configuration may be in a file, and so may the case."""
    config, case = tmp_path / "config.json", tmp_path / "case.json"
    config.write_text('{"pattern": "ö"}', encoding="utf-8")
    case.write_text(json.dumps(outputs("schön")), encoding="utf-8")
    result = tracejury("evaluate", "--evaluator", "regex", "--config", f"@{config}", case)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["fingerprint"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "one of --evaluator, --batch and --eval-set is needed"),
        (["--evaluator", "regex"], "a case is needed"),
        (["--evaluator", "regex", "--batch", "-"], "one of --evaluator, --batch and --eval-set is needed"),
        (["--evaluator", "regex", "--junit", "x", "-"], "--junit: not used with --evaluator"),
        (["--batch", "-", "case.json"], "CASE.json: not used with --batch"),
        (["--evaluator", "exact_match", "missing.json"], "missing.json cannot be read: No such file"),
        (["--evaluator", "regex", "--config", "{", "-"], "the configuration is not JSON"),
        (["--evaluator", "regex", "--config", "[]", "-"], "the configuration is not a JSON object"),
        (["--evaluator", "exact_match", "-"], "the case is not JSON"),
        (["--eval-set", "x.json"], "--eval-set needs --evaluators DIR and --traces PATH"),
        (["--evaluator", "exact_match", "--trace", "x", "--data", "nowhere"], "there is no data in nowhere"),
    ],
)
def test_bad_input_is_said_and_exits_with_2(arguments: Sequence[str], message: str) -> None:
    """What cannot be read is one sentence on standard error."""
    result = tracejury("evaluate", *arguments, stdin="{")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_batch_answers_every_line_in_order() -> None:
    """Whatever a line holds, it has one answer, under its id, in its place."""
    line = {"evaluator": "exact_match", "case": outputs("a", "a")}
    result, documents = answers(
        {"id": "one", **line},
        b"rubbish",
        {"id": 2, **line, "case": outputs("a", "b")},
        b"",
        b'{"id": "three", "evaluator": "nope", "case": {}}',
        b'{"id": {"deep": [1]}, "evaluator": "length", "case": {}}',
        b'{"id": "x", "evaluator": "exact_match", "case": {}, "cases": 1}',
        b"[1]",
        b'"\xff"',
        b'{"id": 1e999, "evaluator": "exact_match", "case": {}}',
        b'{"id": "deep", "evaluator": "exact_match", "case": ' + b"[" * 50_000 + b"}",
        {"id": None, **line},
    )
    ids = ["one", None, 2, None, "three", {"deep": [1]}, "x", None, None, None, None, None]
    assert [answer["id"] for answer in documents] == ids
    assert [answer["outcome"] for answer in documents] == ["verdict", "failure", "verdict", *["failure"] * 8, "verdict"]
    kinds = [answer["failure"] and answer["failure"]["kind"] for answer in documents]
    assert kinds[3:7] == ["bad_line", "bad_configuration", "bad_configuration", "bad_line"]
    assert "cases: unknown key; did you mean case?" in documents[6]["reason"]
    assert result.stderr == "12 evaluated: 2 passed, 1 failed, 9 no verdict\n"
    assert result.exit_code == 2


def test_batch_of_verdicts_exits_as_they_passed() -> None:
    """Without failures the exit code says whether all passed; an empty batch passes."""
    good = {"evaluator": "exact_match", "case": outputs("a", "a")}
    assert answers(good, good)[0].exit_code == 0
    assert answers(good, good | {"case": outputs("a", "b")})[0].exit_code == 1
    assert answers()[0].exit_code == 0


def test_batch_reads_a_file(tmp_path: Path) -> None:
    """A file of a thousand lines is answered line by line."""
    file = tmp_path / "batch.jsonl"
    line = {"evaluator": "length", "config": {"maximumOutputLength": 3}}
    lines = [json.dumps({"id": number, **line, "case": outputs("x" * (number % 5))}) for number in range(1000)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = tracejury("evaluate", "--batch", file)
    documents = [json.loads(answer) for answer in result.stdout.splitlines()]
    assert [answer["id"] for answer in documents] == list(range(1000))
    assert [answer["success"] for answer in documents[:5]] == [True, True, True, True, False]


def test_line_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the bound is a failure, and the next one is read from its start."""
    monkeypatch.setattr(batch, "_LINE", replace(batch._LINE, value=120))
    line = {"id": 1, "evaluator": "exact_match", "case": outputs("a", "a")}
    _, documents = answers(b"[" + b" " * 1000 + b"]", line)
    assert [answer["id"] for answer in documents] == [None, 1]
    assert documents[0]["reason"] == "the line: longer than 120 bytes (fixed): cut its texts"


def test_evaluators_are_listed_with_what_they_read_and_take() -> None:
    """Every kind is listed with its keys, their defaults and their meaning."""
    documents = json.loads(tracejury("evaluators", "--json").stdout)
    assert [document["name"] for document in documents] == list(KINDS)
    for document in documents:
        assert all(key["description"] for key in document["configuration"]), document["name"]
    (shown,) = json.loads(tracejury("evaluators", "length", "--json").stdout)
    keys = {key["key"]: key for key in shown["configuration"]}
    assert keys["maximumOutputLength"]["required"]
    assert keys["minimumOutputLength"]["default"] == 0
    text = tracejury("evaluators", "tool_trajectory").stdout
    assert "reads actualOutputs.toolCalls, expectedOutputs.toolCalls; asks no judge" in text
    assert "there is none of that name" in tracejury("evaluators", "nope").stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server that holds the recorded run of an agent."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as server:
        post(f"http://{server.http}/api/v1/traces", json_request.to_protobuf(AGENT.read_bytes()))
        assert server.store.wait_committed(10)
        yield server


def test_a_line_of_a_recording_ends_with_a_line_feed(tmp_path: Path) -> None:
    """JSON need not escape what Unicode takes for the end of a line, and one of two requests has it."""
    document = json.loads(AGENT.read_bytes())
    (spans,) = (scope["spans"] for resource in document["resourceSpans"] for scope in resource["scopeSpans"])
    spans[0]["attributes"].append({"key": "note", "value": {"stringValue": "one\u2028two"}})
    file = tmp_path / "traces.jsonl"
    file.write_text(f'{json.dumps(document, ensure_ascii=False)}\n{{"resourceSpans": []}}\n', encoding="utf-8")
    (recording,) = recordings_in(file)
    assert len(recording.spans) == len(spans)


def test_stored_trace_is_judged(server: Running) -> None:
    """A stored trace is a case by itself, and with a case beside it one with expectations."""
    (recording,) = recordings_in(AGENT)
    made = recording.case()
    names = [called.name for called in made.actual_outputs["toolCalls"]]
    assert names
    source = ("--trace", recording.trace_id, "--server", server.http)
    code, document = evaluated("--evaluator", "tool_trajectory", *source, stdin=called(expected=names))
    assert (code, document["score"]) == (1, 0.0)  # the case says that no calls were made, which overrides the trace
    expected = {"expectedOutputs": {"toolCalls": [{"name": name} for name in names]}}
    config = '{"argumentMatcher": "IGNORE"}'
    code, document = evaluated("--evaluator", "tool_trajectory", "--config", config, *source, stdin=expected)
    assert (code, document["score"]) == (0, 1.0)
    alone = tracejury("evaluate", "--evaluator", "tool_error", *source)
    assert json.loads(alone.stdout)["metadata"]["totalCalls"] == len(names)
    missing = tracejury("evaluate", "--evaluator", "tool_error", "--trace", "0" * 32, "--server", server.http)
    assert missing.exit_code == 2
    assert "no trace " + "0" * 32 in missing.stderr


@pytest.mark.costly("collector/cli", "collector/conventions", "collector/evaluation", "evaluators")
@pytest.mark.parametrize("file", CORPUS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_any_recorded_trace_is_a_case(file: Path) -> None:
    """Whatever instrumented it, a trace becomes a case that evaluators judge, or skip for content not captured."""
    for recording in recordings_in(file):
        document = json.loads(json.dumps(recording.case().model_dump(mode="json", by_alias=True)))
        for name, config in {
            "tool_error": {},
            "tool_efficiency": {},
            "tool_steps": {"mode": "any_order", "minimums": {"x": 1}},
            "execution_metrics": {"maxToolCalls": 100, "maxLlmCalls": 100},
        }.items():
            code, outcome = evaluated("--evaluator", name, "--config", json.dumps(config), stdin=document)
            is_skipped = outcome["outcome"] == "skipped" and outcome["reason"].startswith("not captured: ")
            assert is_skipped or outcome["outcome"] == "verdict", outcome["reason"]
            assert code in {0, 1}


@pytest.mark.parametrize(
    "retrieved, passages",
    [
        ("plain text", ["plain text"]),
        ('["one", "two"]', ["one", "two"]),
        ('{"documents": [{"page_content": "one", "metadata": {"page": 3}}, {"text": "two"}]}', ["one", "two"]),
        ('[{"document": {"content": "one"}, "score": 0.5}, {"name": "two"}]', ["one", '{"name":"two"}']),
        ('{"answer": 1}', ['{"answer": 1}']),
    ],
)
def test_what_was_retrieved_is_cut_into_passages(retrieved: str, passages: list[str]) -> None:
    """Each retrieved document is a passage by itself, since relevance is judged one by one."""
    assert passages_in(retrieved) == passages


def a_span(number: int, name: str, arguments: object, result: object, **more: object) -> dict[str, Any]:
    """Build a tool's span as the console exporter prints it."""
    return {
        "name": name,
        "context": {"trace_id": f"0x{1:032x}", "span_id": f"0x{number:016x}", "trace_state": "[]"},
        "kind": "SpanKind.INTERNAL",
        "parent_id": None,
        "start_time": f"2026-11-21T10:00:{number:02}.000000Z",
        "end_time": f"2026-11-21T10:00:{number:02}.250000Z",
        "status": {"status_code": "UNSET"},
        "attributes": {
            "openinference.span.kind": "TOOL",
            "tool.name": name,
            "input.value": json.dumps(arguments),
            "output.value": json.dumps(result),
            **more,
        },
        "events": [],
        "links": [],
        "resource": {"attributes": {"service.name": "weather"}, "schema_url": ""},
    }


def the_weather_run(city: str) -> list[dict[str, Any]]:
    """Return two tool calls in a wrapper of content, the later one printed first, and a span that is not a call."""
    return [
        a_span(2, "get_humidity", {"city": city}, {"content": {"humidity": 65}}),
        a_span(1, "get_temperature", {"city": city}, {"content": {"temperature": 25.0, "unit": "fahrenheit"}}),
        a_span(3, "get_forecast", {}, {}, **{"tool.synthesized": "true"}),
    ]


class Weather:
    """The files of an eval set, in a folder of a test."""

    def __init__(self, folder: Path) -> None:
        self.set, self.evaluators, self.traces = folder / "default.json", folder / "evaluators", folder / "traces"
        self.evaluators.mkdir()
        self.traces.mkdir()
        for evaluator, kind, more in (
            ("ToolCallCountEvaluator", "count", {}),
            ("ToolCallOrderEvaluator", "order", {}),
            ("ToolCallArgsEvaluator", "args", {"subset": False}),
            ("ToolCallOutputEvaluator", "output", {}),
        ):
            self.write_evaluator(evaluator, f"uipath-tool-call-{kind}", {"name": evaluator, "strict": False, **more})

    def write_evaluator(self, key: str, kind: str, config: Mapping[str, Any]) -> None:
        """Write an evaluator file."""
        document = {"version": "1.0", "id": key, "evaluatorTypeId": kind, "evaluatorConfig": config, "description": ""}
        (self.evaluators / f"{key}.json").write_text(json.dumps(document), encoding="utf-8")

    def write_set(self, *items: Mapping[str, Any], **more: object) -> None:
        """Write the eval set."""
        document = {"version": "1.0", "id": "weather", "name": "Weather", "evaluations": items, **more}
        self.set.write_text(json.dumps(document), encoding="utf-8")

    def write_run(self, name: str, spans: Sequence[Mapping[str, Any]]) -> None:
        """Write the spans of an item, one a line."""
        (self.traces / f"{name}.jsonl").write_text("\n".join(map(json.dumps, spans)), encoding="utf-8")

    def judge(self, *more: object) -> Result:
        """Run the command on it."""
        files = ("--eval-set", self.set, "--evaluators", self.evaluators, "--traces", self.traces)
        return tracejury("evaluate", *files, *more)


@pytest.fixture
def weather(tmp_path: Path) -> Weather:
    """Return the four evaluators, and no item yet."""
    return Weather(tmp_path)


def an_item(key: str, city: str, **criteria: object) -> dict[str, Any]:
    """Build an item with criteria of all four, some of them changed."""
    criterias: dict[str, object] = {
        "ToolCallCountEvaluator": {"toolCallsCount": {name: ["=", 1] for name in TOOLS}},
        "ToolCallOrderEvaluator": {"toolCallsOrder": TOOLS},
        "ToolCallArgsEvaluator": {"toolCalls": [{"name": name, "args": {"city": city}} for name in TOOLS]},
        "ToolCallOutputEvaluator": {
            "toolOutputs": [
                {"name": "get_temperature", "output": "{'temperature': 25.0, 'unit': 'fahrenheit'}"},
                {"name": "get_humidity", "output": "{'humidity': 65}"},
            ]
        },
    }
    return {"id": key, "name": key.title(), "inputs": {"city": city}, "evaluationCriterias": criterias | criteria}


REFS = [f"ToolCall{what}Evaluator" for what in ("Count", "Order", "Args", "Output")]


def test_eval_set_runs_as_it_is(weather: Weather, tmp_path: Path) -> None:
    """Items are judged on the runs that are called like them, and CI reads the exit code and the XML."""
    weather.write_set(an_item("tokyo", "Tokyo"), an_item("paris", "Paris"), evaluatorRefs=REFS)
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    weather.write_run("paris", the_weather_run("Rome"))
    junit = tmp_path / "junit.xml"
    result = weather.judge("--report", "json", "--junit", junit)
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert result.stderr == "8 evaluated: 7 passed, 1 failed\n"
    assert [item["score"] for item in report["items"]] == [1.0, 0.75]
    assert (report["score"], report["passed"]) == (0.875, False)
    assert [evaluator["mean"] for evaluator in report["evaluators"]] == [1.0, 1.0, 0.5, 1.0]
    suite = ET.parse(junit).getroot()  # noqa: S314 - our own file
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors")} == {
        "name": "Weather",
        "tests": "8",
        "failures": "1",
        "errors": "0",
    }
    failed = next(case for case in suite if len(case))
    assert (failed.get("classname"), failed.get("name")) == ("ToolCallArgsEvaluator", "Paris")
    for file in [*weather.traces.iterdir(), *weather.evaluators.iterdir()]:
        file.rename(file.with_name(file.stem + file.suffix.upper()))
    table = weather.judge().stdout
    assert "tokyo  1.00" in table
    assert (
        'paris · ToolCallArgsEvaluator: 0 of 2 hold: no call of get_temperature has the arguments {"city":"Paris"}'
        in table
    )


def test_eval_set_that_passes_exits_with_0(weather: Weather) -> None:
    """All green is 0; with one item a single file is its run, whatever it is called."""
    weather.write_set(an_item("tokyo", "Tokyo"), evaluatorRefs=REFS)
    weather.write_run("run-17", the_weather_run("Tokyo"))
    assert weather.judge().exit_code == 0


def test_item_is_judged_by_the_evaluators_that_it_names(weather: Weather) -> None:
    """An evaluator that an item does not name says nothing; null and empty criteria are the evaluator's defaults."""
    defaults = {"toolCallsOrder": TOOLS}
    weather.write_evaluator("Order", "uipath-tool-call-order", {"defaultEvaluationCriteria": defaults})
    items = [{"id": key, "evaluationCriterias": {"Order": criteria}} for key, criteria in (("a", None), ("b", {}))]
    weather.write_set(*items, evaluatorRefs=["Order", "ToolCallCountEvaluator"])
    for key in "ab":
        weather.write_run(key, the_weather_run("Tokyo"))
    report = json.loads(weather.judge("--report", "json").stdout)
    assert [list(item["outcomes"]) for item in report["items"]] == [["Order"], ["Order"]]
    assert report["passed"]
    assert "a     1.00   -" in weather.judge().stdout


def test_weights_count(weather: Weather) -> None:
    """The score of an item is the mean by the weights of the set."""
    weather.write_set(
        an_item("tokyo", "Rome"),
        evaluatorConfigs=[{"ref": "ToolCallArgsEvaluator", "weight": 3}, {"ref": "ToolCallOrderEvaluator"}],
    )
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    assert json.loads(weather.judge("--report", "json").stdout)["score"] == 0.25


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"ToolCallOrderEvaluator": {"toolCallOrder": TOOLS}},
            "toolCallOrder: unknown key; did you mean toolCallsOrder?",
        ),
        ({"ToolCallOrderEvaluator": None}, "the item has no criteria, and the evaluator no defaultEvaluationCriteria"),
        ({"ToolCallCountEvaluator": {"toolCallsCount": {"a": ["~", 1]}}}, "expectedOutputs.toolCallsCount.a[0]: "),
        ({"Typo": {"toolCallsOrder": TOOLS}}, "strikt: unknown key; did you mean strict?"),
        ({"ToolCallOrderEvalutor": {"toolCallsOrder": TOOLS}}, "no file has the evaluator ToolCallOrderEvalutor"),
        ({"Trajectory": {"expectedAgentBehavior": "x"}}, "there is no evaluator 'llm_judge_trajectory_similarity'"),
    ],
)
def test_what_cannot_be_judged_spoils_nothing_else(weather: Weather, change: Mapping[str, Any], message: str) -> None:
    """A wrong criterion or evaluator is one failure, and the others give their results."""
    weather.write_evaluator("Typo", "uipath-tool-call-order", {"strikt": True})
    weather.write_evaluator("Trajectory", "uipath-llm-judge-trajectory-similarity", {})
    weather.write_set(an_item("tokyo", "Tokyo", **change), evaluatorRefs=[*REFS, "Typo", "Trajectory"])
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    result = weather.judge("--report", "json")
    (item,) = json.loads(result.stdout)["items"]
    failures = [outcome for outcome in item["outcomes"].values() if outcome["outcome"] == "failure"]
    assert result.exit_code == 2
    assert len(failures) == 1
    assert message in failures[0]["reason"]
    assert item["score"] is None


def test_set_that_judges_nothing_is_no_green(weather: Weather) -> None:
    """When no item names an evaluator of the set, that is bad input, and not a pass."""
    weather.write_set({"id": "tokyo", "evaluationCriterias": {REFS[0]: {}}}, evaluatorRefs=REFS[1:])
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    result = weather.judge()
    assert result.exit_code == 2
    assert "no item names an evaluator of the set" in result.stderr


def test_item_without_a_run_is_a_failure(weather: Weather) -> None:
    """A missing run is neither a failed nor a passed run."""
    weather.write_set(an_item("tokyo", "Tokyo"), an_item("paris", "Paris"), evaluatorRefs=REFS)
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    result = weather.judge()
    assert result.exit_code == 2
    assert "paris · ToolCallCountEvaluator: no recorded trace belongs to the item paris" in result.stdout


def test_runs_may_name_their_item(weather: Weather) -> None:
    """In one file, spans or resources say by an attribute which item their trace answers, in OTLP too."""
    weather.write_set(an_item("tokyo", "Tokyo"), an_item("paris", "Paris"), evaluatorRefs=["ToolCallArgsEvaluator"])
    spans = []
    for trace, city in ((1, "Tokyo"), (2, "Paris")):
        for span in the_weather_run(city):
            span["context"] |= {"trace_id": f"0x{trace:032x}"}
            span["attributes"] |= {"tracejury.item": city.lower()}
            spans.append(span)
    weather.write_run("all", spans)
    request = json.loads(AGENT.read_text(encoding="utf-8"))
    item = {"key": "tracejury.item", "value": {"stringValue": "agent"}}
    request["resourceSpans"][0].setdefault("resource", {}).setdefault("attributes", []).append(item)
    (weather.traces / "otlp.json").write_text(json.dumps(request), encoding="utf-8")
    weather.write_set(
        *(an_item(city.lower(), city) for city in ("Tokyo", "Paris")),
        {"id": "agent", "evaluationCriterias": {"errors": {"nothing": 1}}},
        evaluatorRefs=["ToolCallArgsEvaluator", "errors"],
    )
    weather.write_evaluator("errors", "tool_error", {"threshold": 0})
    assert weather.judge().exit_code == 0


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("set", "{", "default.json: Expecting"),
        ("set", '{"evaluations": []}', "default.json: evaluations: tuple should have at least 1 item"),
        ("set", '{"version": "2.0", "evaluations": []}', "version '2.0' is not supported, only 1.0"),
        ("set", '{"evaluatorRefs": ["Nope"], "evaluations": [{"id": "a"}]}', "has the evaluator Nope; there are: "),
        ("evaluator", '{"id": "a"}', "a.json: evaluatorTypeId: is required"),
        ("trace", "{}", 'neither an OTLP request ("resourceSpans") nor a span'),
        ("trace", '{"resourceSpans": []}', "holds no span"),
        ("trace", '{"context": {}, "attributes": {}}', "not a span of the console exporter: KeyError: 'trace_id'"),
        ("trace", '{"resourceSpans": []}\n{', "line 2 is not JSON"),
        ("trace", '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz"}]}]}]}', "trace_id must be 16 bytes"),
    ],
)
def test_files_that_cannot_be_used_are_named(weather: Weather, name: str, text: str, message: str) -> None:
    """An invalid set, evaluator or recording is bad input, with the file and the error."""
    weather.write_set(an_item("tokyo", "Tokyo"), evaluatorRefs=REFS)
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    files = {"set": weather.set, "evaluator": weather.evaluators / "a.json", "trace": weather.traces / "bad.json"}
    files[name].write_text(text, encoding="utf-8")
    result = weather.judge()
    assert result.exit_code == 2
    assert message in result.stderr


def test_xml_carries_what_models_write(weather: Weather, tmp_path: Path) -> None:
    """Characters that XML cannot carry are replaced, so that the report stays readable for CI."""
    expected = {"toolCalls": [call("get\x00_temperature\x1b")]}
    del expected["toolCalls"][0]["arguments"]
    expected["toolCalls"][0]["args"] = {"city": "\x07"}
    weather.write_set(an_item("tokyo", "Tokyo", ToolCallArgsEvaluator=expected), evaluatorRefs=REFS)
    weather.write_run("tokyo", the_weather_run("Tokyo"))
    weather.judge("--junit", tmp_path / "junit.xml")
    assert len(ET.parse(tmp_path / "junit.xml").getroot()) == 4  # noqa: S314 - our own file
