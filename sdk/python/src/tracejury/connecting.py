"""Connections to models and applications."""

import ssl
from collections.abc import Mapping
from functools import lru_cache

import httpx


def a_client(headers: Mapping[str, str], timeout_s: float) -> httpx.AsyncClient:
    """Make a client for one request. All clients share a TLS context: making one takes longer than most requests."""
    return httpx.AsyncClient(headers=dict(headers), timeout=timeout_s, verify=_tls())


def backoff_s(failures: int, *, first_s: float) -> float:
    """Return the wait before another attempt in seconds: it doubles with each failure."""
    return first_s * float(1 << (failures - 1))


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()
