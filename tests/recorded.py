"""Recorded requests of real programs, to be sent to a server."""

import re
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def recorded(name: str, trace_id: str) -> bytes:
    """Return a recorded request of one trace in OTLP/JSON, under another id; `name` is below the corpus."""
    text = (CORPUS / name).read_text(encoding="utf-8")
    (known,) = set(re.findall('"traceId": *"([0-9a-f]{32})"', text))
    return text.replace(known, trace_id).encode()
