"""Cases built from stored columns equal those built from spans, and their parts are built only when read."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.conventions.columnar.stored_trace import StoredTrace, stored_spans
from collector.conventions.member import TraceMember
from collector.conventions.own_keys import NO_KEYS
from collector.evaluation.deferred import DeferredParts, with_default
from collector.evaluation.trace_case import case_of_stored, whole_case
from collector.live.jobs.work.target import case_of_target
from evaluators.model import text_of
from storage.ingest.windows import Limits, TraceKey
from storage.store import Store
from tests.conventions.corpus_reading import SCENARIOS, tenant_of
from tests.storing import a_store, commit
from tests.test_readings_corpus import a_part

pytestmark = pytest.mark.costly("collector/conventions", "collector/evaluation", "collector/reading", "storage")

ALL = Limits(rows=100_000, nbytes=1 << 30)


@pytest.fixture(name="store", scope="module")
def all_scenarios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store of all scenarios, each as a tenant of its own; log records are stored after all spans."""
    with a_store(tmp_path_factory.mktemp("data")) as store:
        commit(store, *(a_part(folder, "traces") for folder in SCENARIOS))
        commit(store, *(a_part(folder, "logs") for folder in SCENARIOS if (folder / "logs.json").exists()))
        yield store


def trace_of(folder: Path) -> str:
    """Return the id of the trace that a scenario sent."""
    payload = json.loads((folder / "traces.json").read_text(encoding="utf-8"))
    return str(payload["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"])


def members_of(store: Store, folder: Path) -> list[TraceMember]:
    """Return the spans of a scenario from its columns; none if a row is incomplete, as those of pending spans."""
    window = store.windows.meanings_of_traces([TraceKey(tenant_of(folder), trace_of(folder))], limits=ALL)
    assert window is not None
    is_complete = all(window.spans.column("is_complete").to_pylist())
    return [member for _, _, member in stored_spans(window.spans)] if is_complete else []


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_stored_trace_is_the_case_that_its_spans_are(store: Store, folder: Path) -> None:
    """The case from columns equals the case from spans, for each recorded trace and each of its spans alone."""
    trace = store.queries.trace(trace_of(folder), tenant=tenant_of(folder))
    assert trace is not None
    members = members_of(store, folder)
    assert members or "pending" in (folder / "traces.json").read_text(encoding="utf-8")
    if not members:
        return
    logs = trace.logs
    compared = [(members, case_of_target(trace.spans, logs, NO_KEYS))]
    for span in trace.spans:
        alone = [member for member in members if member.span_id == span.span_id]
        own_logs = [log for log in logs if log.span_id == span.span_id]
        compared.append((alone, case_of_target([span], own_logs, NO_KEYS)))
    for some, expected in compared:
        assert whole_case(case_of_stored(StoredTrace(trace_of(folder), some))) == expected
        assert text_of(whole_case(case_of_stored(StoredTrace(trace_of(folder), some[::-1])))) == text_of(expected)


def test_messages_are_decoded_when_somebody_asks_for_the_conversation(store: Store) -> None:
    """A case holds the messages as the texts that are stored, until an evaluator reads the conversation."""
    traces_read = (members_of(store, folder) for folder in SCENARIOS)
    members = next(some for some in traces_read if any(isinstance(one.answered, str) for one in some))
    talking = [one for one in members if one.span_type in ("llm", "agent", "chain")]
    case = case_of_stored(StoredTrace("", members))
    assert any(isinstance(one.answered, str) for one in talking)
    assert case.actual_outputs["trajectory"] is case.actual_outputs["trajectory"]
    assert not any(isinstance(one.answered, str) for one in talking)


def test_deferred_parts_are_what_a_map_of_them_would_be() -> None:
    """Keys whose value is None are absent, defaults fill in for missing keys, and each value is made at most once."""
    made: list[str] = []

    class Parts:
        def __getattr__(self, name: str) -> object:
            made.append(name)
            return {"a": 1, "b": None, "c": 0}[name]

    parts = DeferredParts(Parts(), {"a": "a", "b": "b", "c": "c"})
    assert made == []
    assert ("a" in parts, "b" in parts, "z" in parts) == (True, False, False)
    assert made == ["a", "b"]
    both = with_default(with_default(parts, "b", "second"), "a", "not taken")
    assert made == ["a", "b"], "defaults must not evaluate deferred parts"
    assert (dict(parts), dict(both)) == ({"a": 1, "c": 0}, {"a": 1, "b": "second", "c": 0})
    more = with_default(with_default(with_default(both, "y", 5), "x", 6), "b", "third")
    assert list(more.items()) == [("a", 1), ("b", "second"), ("c", 0), ("y", 5), ("x", 6)]
    assert made == ["a", "b", "c"]
    with pytest.raises(KeyError, match="b"):
        parts["b"]
    assert (len(parts), parts.get("b", "x"), parts.get("z", "y")) == (2, "x", "y")
    assert with_default({"a": 1}, "a", 2) == {"a": 1}
    assert with_default({}, "a", 2) == {"a": 2}
