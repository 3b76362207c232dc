"""The size of the document of a trace."""

import json
from pathlib import Path

import httpx
import pytest

from collector.api.documents import documents
from storage.query import queries
from tests.live import until
from tests.serving import a_server
from tests.storing import a_batch, an_export, commit, rows, trace_id


def test_the_document_of_a_trace_ends_where_its_bytes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace with more than fits shows its first spans and says so, and its export has all of them."""
    with a_server(tmp_path / "data") as server:
        commit(server.store, a_batch(an_export(50)))
        url = f"http://{server.http}/api/v1/traces/{trace_id(0)}"
        whole = httpx.get(url, trust_env=False).json()
        monkeypatch.setattr(documents, "MAX_TRACE_BYTES", 10 << 10)
        part = httpx.get(url, trust_env=False)
        assert len(part.content) < 11 << 10
        shown = part.json()
        assert shown["truncated"]
        assert "truncated" not in whole
        assert shown["spans"] == whole["spans"][: len(shown["spans"])]
        assert httpx.get(f"{url}/otlp", trust_env=False).text.count('"spanId"') == len(whole["spans"])


def test_sums_of_a_trace_are_of_more_spans_than_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a trace that is not shown whole, tokens are the stored sum and the answer is that of all spans."""
    export = an_export(50)
    for span in export.resource_spans[0].scope_spans[0].spans:
        del span.attributes[:]
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 5
        answer = [{"role": "assistant", "parts": [{"type": "text", "content": f"answer of {span.name}"}]}]
        span.attributes.add(key="gen_ai.output.messages").value.string_value = json.dumps(answer)
    with a_server(tmp_path / "data") as server:
        commit(server.store, a_batch(export))
        url = f"http://{server.http}/api/v1/traces/{trace_id(0)}"
        added_up = "SELECT count(*) FROM traces WHERE summed_span_count = 50"
        until(lambda: rows(server.store, added_up), lambda seen: seen == [(1,)])
        whole = httpx.get(url, trust_env=False).json()
        monkeypatch.setattr(queries, "MAX_TRACE_BYTES", 2 << 10)
        part = httpx.get(url, trust_env=False).json()
    assert len(part["spans"]) < len(whole["spans"]) == 50
    assert [(each["inputTokens"], each["summedSpanCount"]) for each in (whole, part)] == [(250, 50)] * 2
    for text in ("input", "output", "finalResponse"):
        assert part[text] == whole[text]
    assert whole["finalResponse"] not in [each["output"] for each in part["spans"]]
