"""Results of traces and spans as they are shown: in documents, in lists of traces, and in the terminal."""

import datetime as dt
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.app import Running
from collector.live.rules.active_rules import ActiveRules
from rules.rule_text import parse_json
from storage.ingest.backlog import SEQ_BITS
from storage.judging.judgements import MAX_DECISIONS
from storage.records import Judging
from tests import storing
from tests.judged import NOW, put, seqs
from tests.live import a_client
from tests.serving import a_server, an_export, post, run
from tests.storing import a_batch, a_store, commit

pytestmark = pytest.mark.costly(
    "collector/api", "collector/cli", "collector/live", "collector/result_labels.py", "rules", "storage"
)

TRACES = [f"{number:032x}" for number in range(1, 7)]
HOSTILE = "no\x1b[2J\u202e\ngood"
DECIDE = "INSERT INTO decision (revision, seq, outcome, clause, decided_at)"
FAR = dt.datetime(2100, 1, 1)  # noqa: DTZ001 - the tables hold UTC without saying so


def a_rule(rules: ActiveRules, name: str, target: str = "SPAN") -> int:
    """Create a rule, and return the number of its active revision."""
    condition = {"field": "name", "op": "=", "value": "refund"}
    text = json.dumps({"name": name, "target": target, "evaluator": "tool_error", "conditions": [condition]})
    return rules.create("shop", parse_json(text), text).stored.revision


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with six traces of two spans, an hour from each other, and three rules; nothing is judged yet."""
    with a_server(tmp_path_factory.mktemp("server") / "data") as server:
        for number, trace_id in enumerate(TRACES):
            export = an_export(trace_id, "agent", "refund", at_s=3_600 * number)
            post(f"http://{server.http}/api/v1/traces", export.SerializeToString())
        assert server.store.wait_committed(10)
        server.pipeline.close()  # what the rules make of them is up to the tests
        yield server


@pytest.fixture(scope="module")
def numbers(server: Running) -> dict[str, int]:
    """Return the revisions of the rules, by name; the first trace is judged in all ways that there are."""
    store, trace_id = server.store, TRACES[0]
    numbers = {name: a_rule(server.pipeline.rules, name) for name in ("spans", "other")}
    numbers["whole"] = a_rule(server.pipeline.rules, "whole", "TRACE")
    root, refund = seqs(store, trace_id)
    spans = [f"{number:016x}" for number in (1, 2)]
    put(store, "decision", revision=numbers["spans"], seq=root, outcome=0, clause=2)
    put(store, "decision", revision=numbers["spans"], seq=refund)
    put(store, "decision", revision=numbers["other"], seq=root, outcome=1)
    put(store, "decision", revision=numbers["other"], seq=refund, outcome=3)
    put(store, "decision", revision=numbers["whole"], seq=refund)
    of_span: dict[str, Any] = {"revision": numbers["spans"], "seq": refund, "trace_id": trace_id, "span_id": spans[1]}
    put(store, "evaluation", job_id=1, **of_span, score=0.25, passed=False, threshold=0.5, reason=HOSTILE)
    put(store, "superseded", job_id=1)
    fields = {"reason": "all 1 succeeded", "metadata": '{"n": [1, NaN]}', "judge_model": "m", "cost_usd": 0.5}
    put(store, "evaluation", job_id=2, round=1, **of_span, score=1.0, passed=True, **fields)
    of_trace: dict[str, Any] = {"revision": numbers["whole"], "seq": refund, "trace_id": trace_id}
    failure = {"outcome": "failed", "error_kind": "timeout", "reason": HOSTILE}
    put(store, "evaluation", job_id=3, **of_trace, **failure, score=math.nan)
    return numbers


@pytest.fixture
def document(server: Running, numbers: dict[str, int]) -> dict[str, Any]:
    """Return the document of the first trace, which is judged."""
    assert numbers
    with a_client() as client:
        answer = client.get(f"http://{server.http}/api/v1/traces/{TRACES[0]}")
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


def test_evaluations_stand_where_they_belong(document: dict[str, Any], numbers: dict[str, int]) -> None:
    """Those of a span at the span, those of the trace at the trace, and superseded ones are marked."""
    (root, refund) = document["spans"]
    assert root["evaluations"] == []
    superseded, current = refund["evaluations"]
    assert (superseded["superseded"], superseded["passed"], superseded["reason"]) == (True, False, HOSTILE)
    expected = {"jobId": 2, "rule": "spans", "revision": numbers["spans"], "outcome": "scored", "score": 1.0}
    expected |= {"passed": True, "round": 1, "judgeModel": "m", "costUsd": 0.5, "superseded": False}
    assert current.items() >= expected.items()
    assert current["metadata"] == {"n": [1, "NaN"]}
    assert current["createdAt"] == "2026-11-21T10:00:00.000000000Z"
    (failed,) = document["evaluations"]
    assert (failed["outcome"], failed["errorKind"], failed["passed"]) == ("failed", "timeout", None)


def test_every_decision_stands_with_its_reason(document: dict[str, Any]) -> None:
    """A filtered decision names its clause, and a matched one its result, each of the latest round."""
    (root, refund) = document["spans"]
    assert [(each["rule"], each["decision"], each["clause"]) for each in root["decisions"]] == [
        ("spans", "filtered", 'name = "refund"'),
        ("other", "sampled_out", None),
    ]
    assert [(each["rule"], each["decision"]) for each in refund["decisions"]] == [
        ("spans", "scored"),
        ("other", "undecided"),
    ]
    assert [(each["rule"], each["decision"]) for each in document["decisions"]] == [("whole", "failed")]
    assert "judgementsTruncated" not in document


def test_what_rules_alone_made_of_a_trace_is_what_is_told_of_it(server: Running, numbers: dict[str, int]) -> None:
    """The page of a trace, which queries less, gets the same judgements; without decisions, the evaluations."""
    store = server.store
    judged = store.judgements.of_trace(TRACES[0], tenant="")
    batches = [seq >> SEQ_BITS for seq in seqs(store, TRACES[0])]
    assert numbers
    commits = (min(batches), max(batches))
    alone = store.judgements.by_rules(TRACES[0], tenant="", commits=commits, decided=True)
    assert (repr(alone.evaluations), alone.decisions) == (
        repr(judged.evaluations),
        judged.decisions,
    )  # one score is NaN
    fewer = store.judgements.by_rules(TRACES[0], tenant="", commits=commits, decided=False)
    assert (repr(fewer.evaluations), len(fewer.decisions)) == (repr(judged.evaluations), 0)


@pytest.mark.parametrize(
    "job, evaluation, expected",
    [
        (None, None, "matched"),
        ({"state": "ready"}, None, "ready"),
        ({"state": "ready", "not_before": NOW}, None, "ready"),
        ({"state": "ready", "not_before": FAR}, None, "waiting"),
        ({"state": "held"}, None, "held"),
        ({"state": "claimed", "not_before": NOW}, None, "claimed"),
        ({"state": "claimed", "round": 1}, {"outcome": "failed"}, "claimed"),
        (None, {"outcome": "skipped", "error_kind": "over_budget"}, "over_budget"),
        (None, {"outcome": "skipped", "error_kind": "rule_disabled"}, "rule_disabled"),
        (None, {"outcome": "skipped", "error_kind": "rule_deleted"}, "skipped"),
    ],
)
def test_what_was_matched_is_what_came_of_it(
    tmp_path: Path, job: dict[str, Any] | None, evaluation: dict[str, Any] | None, expected: str
) -> None:
    """From work to be done to its outcome, one word each, for a span and for a trace."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(storing.an_export(2)))
        trace_id = storing.trace_id(0)
        rules = ActiveRules(store.rulebook)
        (_, seq) = seqs(store, trace_id)
        for number, span_id in ((a_rule(rules, "spans"), storing.span_id(1)), (a_rule(rules, "whole", "TRACE"), None)):
            target = {"revision": number, "seq": seq, "trace_id": trace_id, "span_id": span_id, "job_id": number}
            put(store, "decision", revision=number, seq=seq)
            for table, columns in (("job", job), ("evaluation", evaluation)):
                if columns is not None:
                    put(store, table, **target, **columns)
        judged = store.judgements.of_trace(trace_id)
        assert [(each.rule, each.decision) for each in judged.decisions] == [("whole", expected), ("spans", expected)]


def test_a_trace_that_has_not_settled_waits(tmp_path: Path) -> None:
    """Until it settles, each rule about traces waits, whatever it decided before; rules about spans do not."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(storing.an_export(1)))
        trace_id = storing.trace_id(0)
        rules = ActiveRules(store.rulebook)
        spans, whole = a_rule(rules, "spans"), a_rule(rules, "whole", "TRACE")
        (seq,) = seqs(store, trace_id)
        for number in (spans, whole):
            put(store, "decision", revision=number, seq=seq, outcome=0, clause=1)
        for _ in range(2):  # its spans came in several commits
            put(store, "trace_open", trace_id=trace_id, last_seq=seq)
        judged = store.judgements.of_trace(trace_id)
        decided = [(each.rule, each.decision) for each in judged.decisions]
        assert decided == [("whole", "waiting"), ("spans", "filtered")]
        alone = store.judgements.by_rules(trace_id, tenant="", commits=(seq >> SEQ_BITS, seq >> SEQ_BITS), decided=True)
        assert (alone.evaluations, alone.decisions) == (judged.evaluations, judged.decisions)


def test_judgements_of_a_large_trace_are_bounded(tmp_path: Path) -> None:
    """Beyond the limit of one read the matched decisions come first, and the answer says that there are more."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(storing.an_export(10_500)), a_batch(storing.an_export(10_500, first=10_500)))
        trace_id = storing.trace_id(0)
        rules = ActiveRules(store.rulebook)
        spans, whole = a_rule(rules, "spans"), a_rule(rules, "whole", "TRACE")

        def write(cursor: Any) -> None:
            cursor.execute(
                f"{DECIDE} SELECT $spans, seq, 0, 2, $now FROM span",
                {"spans": spans, "now": NOW},
            )
            last = {"whole": whole, "now": NOW}
            cursor.execute(
                f"{DECIDE} SELECT $whole, max(seq), 2, NULL, $now FROM span",
                last,
            )

        store._writer.store(write, 21_000)
        judged = store.judgements.of_trace(trace_id)
        assert (len(judged.decisions), judged.whole) == (MAX_DECISIONS, False)
        assert [(each.rule, each.decision) for each in judged.decisions[:2]] == [
            ("whole", "matched"),
            ("spans", "filtered"),
        ]


def test_what_became_of_everything_fits_into_little_memory(tmp_path: Path) -> None:
    """A question about all decisions takes no memory for what the rules say: here two gigabytes otherwise."""
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(storing.an_export(10_000)), a_batch(storing.an_export(10_000, first=10_000)))
        rule = a_rule(ActiveRules(store.rulebook), "spans")

        def write(cursor: Any) -> None:
            cursor.execute(
                "UPDATE rule_revision SET document = json_object('said', $long), clauses = $clauses",
                {"long": "x" * 100_000, "clauses": [f"clause {number}" for number in range(1_000)]},
            )
            cursor.execute(
                f"{DECIDE} SELECT $rule, seq, 0, 7, $now FROM span",
                {"rule": rule, "now": NOW},
            )

        store._writer.store(write, 20_000)
        select = "SELECT decision, clause, count(*) AS n FROM decisions GROUP BY ALL"
        assert store.queries.sql(select, {}, max_rows=10, timeout_s=60).rows == (("filtered", "clause 7", 20_000),)


def test_a_trace_that_is_not_there_was_not_judged(tmp_path: Path) -> None:
    """An unknown id, and one that is none, have no judgements."""
    with a_store(tmp_path / "data") as store:
        for trace_id in ("f" * 32, "x", ""):
            judged = store.judgements.of_trace(trace_id)
            assert (judged.evaluations, judged.decisions, judged.whole) == ((), (), True)


@pytest.fixture(scope="module")
def listed(server: Running, numbers: dict[str, int]) -> httpx.URL:
    """Judge some traces by the rule `other`; return the URL of the list."""
    other, project = numbers["other"], "shop"
    for job, (place, passed) in enumerate(((1, False), (2, True), (3, False), (4, False)), start=10):
        _, refund = seqs(server.store, TRACES[place])
        more: dict[str, Any] = {"revision": other, "seq": refund, "trace_id": TRACES[place], "span_id": f"{2:016x}"}
        put(server.store, "evaluation", job_id=job, project=project, passed=passed, score=float(passed), **more)
    put(server.store, "superseded", job_id=13)
    return httpx.URL(f"http://{server.http}/api/v1/traces")


def numbers_listed(url: httpx.URL, **parameters: object) -> list[int]:
    """List the traces; return their numbers, in order."""
    with a_client() as client:
        answer = client.get(url, params={name: str(value) for name, value in parameters.items()})
    assert answer.status_code == 200, answer.text
    return [TRACES.index(trace["traceId"]) for trace in answer.json()["content"]]


def test_traces_are_found_by_what_the_rules_made_of_them(
    listed: httpx.URL, server: Running, numbers: dict[str, int]
) -> None:
    """Traces are filtered by rule, outcome and verdict, newest first; superseded evaluations do not count."""
    assert numbers_listed(listed, rule="other", passed="false") == [3, 1]
    assert numbers_listed(listed, rule="other", passed="true") == [2]
    assert numbers_listed(listed, rule="other") == [3, 2, 1]
    assert numbers_listed(listed, rule="spans", passed="false") == []
    assert numbers_listed(listed, outcome="failed") == numbers_listed(listed, rule="whole", outcome="failed") == [0]
    assert numbers_listed(listed, passed="true") == [2, 0]
    assert numbers_listed(listed, rule="nope") == []
    assert numbers_listed(listed, rule="other", project="bank") == []
    assert numbers_listed(listed) == [5, 4, 3, 2, 1, 0]
    (rule_id,) = {active.rule_id for active in server.pipeline.rules.active() if active.revision == numbers["other"]}
    assert numbers_listed(listed, rule=rule_id, passed="false", project="shop") == [3, 1]
    judging = Judging(rule="other", outcome=None, passed=None)
    for tenant in ("", "else", None):  # shared traces are visible to all tenants
        assert len(server.store.queries.judged_traces(judging, tenant=tenant)) == 3
    with a_client() as client:
        assert client.get(listed, params={"outcome": "passed"}).status_code == 400


def test_judged_traces_are_paged(listed: httpx.URL) -> None:
    """Page by page they are all there, once, in the order of the whole."""
    pages = [numbers_listed(listed, rule="other", page=page, size=1) for page in range(4)]
    assert pages == [[3], [2], [1], []]


@pytest.mark.usefixtures("listed")
def test_the_terminal_lists_judged_traces(server: Running, tmp_path: Path) -> None:
    """`traces list` takes the same filters, over a server and over a data directory."""
    command = ("traces", "list", "--rule", "other", "--not-passed", "--json", "--server", server.http)
    assert [trace["traceId"] for trace in json.loads(run(*command).stdout)] == [TRACES[3], TRACES[1]]
    shown = run("traces", "list", "--outcome", "failed", "--server", server.http).stdout
    assert [TRACES[0] in shown, TRACES[1] in shown] == [True, False]
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(storing.an_export(1)))
        (seq,) = seqs(store, storing.trace_id(0))
        number = a_rule(ActiveRules(store.rulebook), "r")
        put(store, "evaluation", job_id=1, revision=number, seq=seq, trace_id=storing.trace_id(0), passed=True)
    for option, count in (("--passed", 1), ("--not-passed", 0)):
        traces = json.loads(run("traces", "list", option, "--json", "--data", tmp_path / "data").stdout)
        assert len(traces) == count


@pytest.mark.usefixtures("numbers")
def test_the_terminal_shows_verdicts_beside_what_they_judge(server: Running) -> None:
    """The trace and each span show their current verdicts, harmless to the terminal, and no superseded ones."""
    shown = run("traces", "show", TRACES[0], "--server", server.http).stdout
    lines = [line.strip(" │") for line in shown.splitlines()]
    assert "judged whole: no verdict (timeout); no\\x1b[2J\\u202e\\ngood" in lines
    assert "judged  spans: passed, 1; all 1 succeeded" in lines
    assert "judged  other: undecided" in lines
    assert "spans: failed" not in shown
    assert "\x1b" not in shown
    explained = run("traces", "show", TRACES[0], "--explain", "0" * 15 + "1", "--server", server.http).stdout
    assert explained.splitlines()[-2:] == ['spans: filtered, not name = "refund"', "other: sampled out"]
