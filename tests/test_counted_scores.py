"""Scores by people and applications that monitors count, because a rule says so."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from rules.errors import BadRule
from rules.rule_text import parse_rule
from storage import sql
from tests.live import until
from tests.log_requests import a_log_export
from tests.offline import Offline, an_offline_server
from tests.serving import an_export, post, run
from tests.storing import START_NS

pytestmark = pytest.mark.costly(
    "collector/api", "collector/live", "collector/otlp", "collector/web", "rules", "storage"
)

RULE = {
    "name": "answers",
    "evaluator": "length",
    "config": {"maximumOutputLength": 100},
    "conditions": [{"field": "name", "op": "=", "value": "root"}],
    "monitor": {"scores": ["thumbs", "stars"], "off": "drift", "baseline": 256},
}


class Watched:
    """A server with a rule that counts scores."""

    def __init__(self, api: Offline) -> None:
        self.api = api
        self._source = random.Random(7)
        self.rule = api.ask("POST", "projects/shop/trace-eval-rules", 201, json=RULE)

    def traces(self, count: int, release: str = "1", name: str = "root", project: str = "shop") -> list[str]:
        """Store new traces, about which the rule decides."""
        assert self.api.running is not None
        ids = [self._source.randbytes(16).hex() for _ in range(count)]
        together = ExportTraceServiceRequest()
        for trace_id in ids:
            request = an_export(trace_id, name, project=project)
            request.resource_spans[0].resource.attributes.add(key="service.version").value.string_value = release
            request.resource_spans[0].scope_spans[0].spans[0].attributes.add(
                key="output.value"
            ).value.string_value = "yes"
            together.MergeFrom(request)
        post(f"http://{self.api.running.otlp_http}/v1/traces", together.SerializeToString())
        return ids

    def say(self, trace_ids: list[str], **fields: Any) -> None:
        """Score each trace, as an application does."""
        for at in range(0, len(trace_ids), 100):
            scores = [{"traceId": each, "name": "thumbs", **fields} for each in trace_ids[at : at + 100]]
            self.api.ask("POST", "scores", 201, json={"scores": scores})

    def stream(self, name: str = "thumbs") -> dict[str, Any] | None:
        """Return the monitors of one question."""
        monitors = self.api.ask("GET", "monitors", params={"rule": "answers"})["content"]
        return next((each for each in monitors if each["fingerprint"] == f"scores:{name}"), None)

    def counted(self, results: int, name: str = "thumbs") -> dict[str, Any]:
        """Return the monitors of one question once they have counted `results` results."""

        def seen(stream: dict[str, Any] | None) -> bool:
            return stream is not None and stream["results"] >= results

        stream = until(lambda: self.stream(name), seen, within_s=30)
        assert stream is not None
        assert stream["results"] == results
        return stream


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Yield a server with its rule active."""
    with an_offline_server(tmp_path / "data") as server:
        yield Watched(server)


def test_thumbs_that_get_worse_with_a_release_open_an_alert_that_can_be_checked(watched: Watched) -> None:
    """The alert names the question, its SQL gives the counts of both sides, and the examples are thumbs down."""
    watched.say(watched.traces(60), label="up", source="user", author="Ada")
    assert watched.counted(60)["openAlertId"] is None
    bad = watched.traces(40, release="2")
    watched.say(bad, label="down", comment="wrong", source="user", author="Ada")
    stream = watched.counted(100)
    alert = watched.api.ask("GET", f"alerts/{stream['openAlertId']}")
    assert (alert["evaluator"], alert["kind"], alert["projectName"]) == ("thumbs", "release", "shop")
    assert (alert["baseline"]["release"], alert["candidate"]["release"]) == ("1", "2")
    examples = alert["details"]["examples"]
    assert watched.api.sql(alert["details"]["sql"]) == [
        [side, alert[side]["count"], alert[side]["rate"]] for side in ("baseline", "candidate")
    ]
    assert {each["traceId"] for each in examples} <= set(bad)
    assert {each["reason"] for each in examples} == {"wrong"}


def test_what_does_not_count(watched: Watched) -> None:
    """Traces that the rule did not match, other questions, and answers without a meaning."""
    mine, other = watched.traces(12), watched.traces(3, name="elsewhere")
    watched.say(other, label="down")
    watched.say(mine[:1], label="down", name="colour")
    watched.say(mine[1:2], score=17.0, name="stars")
    watched.say(mine[2:3], label="perhaps")
    watched.say(mine[3:], label="up")
    assert watched.counted(9)["results"] == 9
    assert watched.stream("stars") is None


def test_each_author_counts_once_for_a_target(watched: Watched) -> None:
    """A changed mind is not a second result, another author's is; people at the page count like applications."""
    (one,) = watched.traces(1)
    watched.say([one], label="up", author="Ada")
    watched.counted(1)
    watched.say([one], label="down", author="Ada")
    watched.say([one], label="down", author="Grace")
    watched.counted(2)
    watched.api.ask("PUT", f"traces/{one}/annotation", json={"name": "thumbs", "label": "up", "by": "Ada"})
    watched.counted(3)
    rows = watched.api.sql("SELECT source, author, passed FROM counted_scores ORDER BY number")
    assert rows == [["application", "Ada", True], ["application", "Grace", False], ["person", "Ada", True]]


def test_the_streams_of_scores_and_of_the_evaluator_stand_beside_each_other(watched: Watched) -> None:
    """Neither stream replaces the other: each is the first of its rule, and no number is reported twice."""
    watched.say(watched.traces(30), label="up")
    watched.counted(30)

    def seen() -> list[dict[str, Any]]:
        monitors: list[dict[str, Any]] = watched.api.ask("GET", "monitors", params={"rule": "answers"})["content"]
        return monitors

    shown = run("monitors", "--rule", "answers", "--server", watched.api.url).output
    assert "shop, answers, scores:thumbs: 30 results" in shown
    streams = until(seen, lambda monitors: [each["results"] for each in monitors] == [30, 30], within_s=30)
    assert {(each["began"], each["replacedFingerprint"]) for each in streams} == {("first", None)}
    numbers = "SELECT number FROM evaluations UNION ALL SELECT number FROM counted_scores"
    assert watched.api.sql(f"SELECT count(*), count(DISTINCT number) FROM ({numbers})") == [[60, 60]]


def test_a_score_waits_for_its_trace_to_be_decided_about(watched: Watched) -> None:
    """A score for a trace that comes later counts once the rule has matched the trace."""
    assert watched.api.running is not None
    early = "ab" * 16
    watched.say([early], label="up")
    assert watched.stream() is None
    request = an_export(early, "root")
    post(f"http://{watched.api.running.otlp_http}/v1/traces", request.SerializeToString())
    watched.counted(1)


def test_what_was_counted_leaves_with_its_trace(watched: Watched) -> None:
    """A deleted trace takes the rows about it along, with the note of an annotator."""
    gone, stays = watched.traces(2)
    watched.say([gone, stays], label="up", author="Ada", comment="a note")
    watched.counted(2)
    assert watched.api.answer("DELETE", f"traces/{gone}").status_code in {200, 202}
    left = "SELECT trace_id, note FROM counted_scores"
    until(lambda: watched.api.sql(left), lambda rows: rows == [[stays, "a note"]])


def an_event(trace_id: str, name: str = "thumbs", **attributes: str) -> LogRecord:
    """Build a score as an event about the first span of a trace."""
    event_attributes = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.label": "pass", **attributes}
    return LogRecord(
        trace_id=bytes.fromhex(trace_id),
        span_id=(1).to_bytes(8, "big"),
        time_unix_nano=START_NS,
        event_name="gen_ai.evaluation.result",
        attributes=[KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in event_attributes.items()],
    )


def tell(watched: Watched, *events: LogRecord) -> None:
    """Send events, as an external evaluator does."""
    assert watched.api.running is not None
    post(f"http://{watched.api.running.otlp_http}/v1/logs", a_log_export(*events).SerializeToString())


def test_scores_that_come_as_events_count_like_those_of_the_api(watched: Watched) -> None:
    """Once for a target and a source, of the questions that are wanted, with the release of the trace."""
    watched.say(watched.traces(1), label="up")
    watched.counted(1)  # from here on, scores count as new
    mine, other = watched.traces(4, release="7"), watched.traces(1, name="elsewhere")
    why = {"gen_ai.evaluation.score.label": "fail", "gen_ai.evaluation.explanation": "wrong"}
    tell(watched, an_event(mine[0]), an_event(mine[1], **why), an_event(mine[2], name="colour"), an_event(other[0]))
    watched.counted(3)
    tell(watched, an_event(mine[0]), an_event(mine[0], **{"tracejury.source": "user"}))
    tell(watched, an_event(mine[3], **{"tracejury.target": "trace", "gen_ai.evaluation.score.label": "perhaps"}))
    tell(watched, an_event(mine[3], **{"tracejury.target": "trace"}))
    assert watched.counted(5)["results"] == 5
    select = "SELECT trace_id, span_id IS NULL, source, author, passed, note, release, project FROM counted_scores"
    rows = watched.api.sql(f"{select} WHERE author = 'event' ORDER BY number")
    assert sorted(rows, key=str) == sorted(
        [
            [mine[0], False, "application", "event", True, None, "7", "shop"],
            [mine[1], False, "application", "event", False, "wrong", "7", "shop"],
            [mine[0], False, "user", "event", True, None, "7", "shop"],
            [mine[3], True, "application", "event", True, None, "7", "shop"],
        ],
        key=str,
    )


def test_an_event_waits_for_its_trace_and_leaves_with_it(watched: Watched) -> None:
    """An event may come before its trace, and its counted score is deleted with the trace."""
    assert watched.api.running is not None
    watched.say(watched.traces(1), label="up")
    watched.counted(1)
    early = "cd" * 16
    tell(watched, an_event(early))
    post(f"http://{watched.api.running.otlp_http}/v1/traces", an_export(early, "root").SerializeToString())
    watched.counted(2)
    assert watched.api.answer("DELETE", f"traces/{early}").status_code in {200, 202}
    left = "SELECT count(*) FROM counted_scores"
    until(lambda: watched.api.sql(left), lambda rows: rows == [[1]])


def test_quality_shows_what_people_say_beside_what_the_evaluator_says(watched: Watched) -> None:
    """Each question is a line of its own, over the API and on pages, with its rate, its releases and its results."""
    first, second = watched.traces(6), watched.traces(4, release="2")
    watched.say(first, label="up")
    watched.say(second, label="down", comment="too slow")
    watched.counted(10)

    def lines() -> dict[str, Any]:
        document = watched.api.ask("GET", "quality", params={"rule": "answers", "by": "release"})["lines"]
        return {f"{each['fingerprint'][:7]} {each['group']}": each for each in document}

    of_api = until(lines, lambda entries: len(entries) == 4)
    assert [of_api[f"scores: {each}"]["passed"] for each in "12"] == [6, 0]
    assert [of_api[f"scores: {each}"]["meanScore"] for each in "12"] == [1.0, 0.0]
    site = watched.api.url
    overview = httpx.get(f"{site}/quality").text
    row = overview.partition("votes and external scores: <bdi>thumbs")[0].rpartition("<tr")[2]
    assert "fingerprint=scores%3Athumbs" in row
    assert overview.count("<tr data-row") == 2
    chosen = {"rule": watched.rule["id"], "project": "shop", "fingerprint": "scores:thumbs"}
    one = httpx.get(f"{site}/quality", params=chosen).text
    assert "Votes and external scores for" in one
    assert "60.0 %" in one
    whole = httpx.get(f"{site}/quality", params=chosen | {"fingerprint": ""}).text
    assert "Votes and external scores: " in whole
    listed = httpx.get(f"{site}/quality/results", params=chosen | {"verdict": "failed"}).text
    assert listed.count("too slow") == 4
    compared = httpx.get(f"{site}/quality/compare", params=chosen | {"baseline": "1", "candidate": "2"})
    assert compared.status_code == 200


def test_labels_mean_the_same_to_monitors_and_in_the_view_of_annotations() -> None:
    """What passes as a label in one statement passes in every other one that knows what labels mean."""
    meant = re.compile(r"WHEN '(\w+)' THEN (true|false)")
    view = dict(sql.views())["annotations"]
    assert meant.findall(sql.query("scores_to_count")) == meant.findall(view) != []
    listed = re.compile(r"label IN \(([^)]*)\)\) AS (passes|fails)")
    passing = [label for label, passes in meant.findall(view) if passes == "true"]
    failing = [label for label, passes in meant.findall(view) if passes == "false"]
    for text in (dict(sql.views())["judge_rates"], sql.query("labelled_run_scores")):
        lists = {name: re.findall(r"'(\w+)'", labels) for labels, name in listed.findall(text)}
        assert lists == {"passes": passing, "fails": failing}


@pytest.mark.parametrize("scores", ["thumbs", [1], ["a", "a"], [""], [f"n{number}" for number in range(21)]])
def test_a_wrong_list_of_scores_is_refused(scores: object) -> None:
    """The problem names the key."""
    text = json.dumps(RULE | {"monitor": {"scores": scores}})
    with pytest.raises(BadRule, match=r"monitor\.scores"):
        parse_rule(text)


def test_scores_make_another_revision_and_come_back_as_they_were() -> None:
    """The list is part of what the rule says."""
    without = parse_rule(json.dumps({key: value for key, value in RULE.items() if key != "monitor"})).rule
    rule = parse_rule(json.dumps(RULE)).rule
    assert rule.monitoring.scores == ("thumbs", "stars")
    assert rule.revision != without.revision
    assert parse_rule(json.dumps(rule.document())).rule == rule
