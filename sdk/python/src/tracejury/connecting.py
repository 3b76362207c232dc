"""Connections to models and applications."""

import ssl
from collections.abc import Mapping
from functools import lru_cache

import httpx


def a_client(headers: Mapping[str, str], timeout_s: float) -> httpx.AsyncClient:
    """A client for one request. What it needs for TLS is made once: that takes longer than most requests."""
    return httpx.AsyncClient(headers=dict(headers), timeout=timeout_s, verify=_tls())


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()
