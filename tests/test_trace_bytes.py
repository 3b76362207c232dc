"""The size of the document of a trace."""

from pathlib import Path

import httpx
import pytest

from collector.api.documents import documents
from tests.serving import a_server
from tests.storing import a_batch, an_export, commit, trace_id


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
