"""URLs that no HTTP client can read, wherever one is taken: a mistake of the caller in that field, not a failure."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving import a_server, run

BAD = ("https://xn--/x", "https://xn--a/", "https://xn--n98n/", "https://a..b/", "https://[::1/", "https://h:port/")
PROJECT = "/api/v1/projects/shop"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a client of a server that can store secrets."""
    server = a_server(tmp_path_factory.mktemp("data"), encryption_key="a passphrase of the tests")
    with server as running, httpx.Client(base_url=f"http://{running.http}", trust_env=False) as asking:
        yield asking


@pytest.mark.parametrize("url", BAD)
@pytest.mark.parametrize(
    "path,body,field",
    [
        (f"{PROJECT}/alert-webhooks", {"events": ["alert.opened"]}, "url"),
        ("/api/v1/llm-connections", {"name": "judge", "model": "m"}, "baseUrl"),
    ],
)
def test_a_url_that_cannot_be_read_is_the_callers_mistake(
    client: httpx.Client, path: str, body: dict[str, object], field: str, url: str
) -> None:
    """It is answered with 400 and a problem that names the field, and nothing is stored."""
    answer = client.post(path, json=body | {field: url})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    problem = answer.json()
    assert field in str(problem)
    assert "not a URL" in str(problem)


@pytest.mark.parametrize("url", BAD)
def test_a_server_that_cannot_be_named_is_a_wrong_option(tmp_path: Path, url: str) -> None:
    """Commands refuse such a URL of a server in one line, without a traceback."""
    result = run("status", "--server", url, env={"HOME": str(tmp_path)})
    assert result.exit_code == 2
    assert "is not a URL such as" in result.output
