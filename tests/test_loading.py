"""Modules that a start loads, and those that the first use of a feature loads."""

import asyncio
import errno
import json
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from collector.startup import DeferredApplication

SERVER = """
import asyncio, json, sys
import httpx
from collector.app import running
from collector.settings import Settings

async def loaded_at_each_step():
    addresses = dict.fromkeys(("grpc", "otlp_http", "http"), "127.0.0.1:0")
    async with running(Settings.model_validate({"data": sys.argv[1]} | addresses)) as server:
        steps = [sorted(sys.modules)]
        async with httpx.AsyncClient(base_url=f"http://{server.http}", trust_env=False, timeout=60) as client:
            for paths in (("/health", "/ready", "/metrics"), ("/api/v1/caller", "/")):
                for path in paths:
                    (await client.get(path)).raise_for_status()
                steps.append(sorted(sys.modules))
    return steps

print(json.dumps(asyncio.run(loaded_at_each_step())))
"""

LATER = ("collector.web", "collector.api.traces", "collector.api.serving.application", "jinja2", "markdown_it")
NEVER = ("openai", "mcp", "pandas", "jsonschema", "opentelemetry.sdk")


NOT_AT_START = ("fastapi", "jinja2", "collector.quack.endpoint")


def has(names: list[str], package: str) -> bool:
    """Say whether a module of a package is among these."""
    return any(name == package or name.startswith(f"{package}.") for name in names)


def test_the_api_and_the_pages_are_loaded_by_the_first_request_for_them(tmp_path: Path) -> None:
    """Neither the start nor probes load them; libraries of judges and of MCP are not loaded by requests either."""
    command = [sys.executable, "-c", SERVER, str(tmp_path)]
    started, probed, looked = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for package in LATER:
        assert (has(started, package), has(probed, package), has(looked, package)) == (False, False, True), package
    assert not [package for package in NOT_AT_START if has(started, package)]
    assert not [package for package in NEVER if has(looked, package)]


def test_a_probe_does_not_wait_for_the_load() -> None:
    """While a request waits until the whole application is loaded, probes are answered by the small one."""
    go_on = threading.Event()

    def load() -> ASGIApp:
        assert go_on.wait(30)
        return PlainTextResponse("whole")

    async def ask() -> list[str]:
        transport = httpx.ASGITransport(DeferredApplication(load, lambda: PlainTextResponse("small")))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            page = asyncio.create_task(client.get("/"))
            await asyncio.sleep(0.1)
            probed = asyncio.create_task(client.get("/health"))
            await asyncio.wait({probed}, timeout=10)
            go_on.set()
            return [(await probed).text, (await page).text, (await client.get("/health")).text]

    assert asyncio.run(ask()) == ["small", "whole", "whole"]


def test_an_application_that_could_not_be_loaded_is_loaded_again() -> None:
    """A failure, such as a lack of file descriptors, affects only the requests that waited for the load."""
    attempts = 0

    def load() -> ASGIApp:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return PlainTextResponse("loaded")

    async def ask() -> list[str]:
        transport = httpx.ASGITransport(DeferredApplication(load, load))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            with pytest.raises(OSError, match="too many open files"):
                await client.get("/")
            return [(await client.get("/")).text for _ in range(2)]

    assert asyncio.run(ask()) == ["loaded", "loaded"]
    assert attempts == 2
