"""The key of secrets that a server makes at its first start."""

import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.encryption_key import KEY_FILE, make_key, secrets_for_looking
from collector.secrets import NoEncryptionKey
from tests.alerting import ENCRYPTION_KEY
from tests.connecting import a_connection
from tests.serving import a_server, run

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/delivery",
    "collector/encryption_key.py",
    "collector/live",
    "collector/secrets.py",
    "evaluators/chat",
    "storage",
)

CONNECTION = a_connection("http://127.0.0.1:9", apiKey="sk-secret-of-this-test")
WEBHOOK = {"url": "https://hooks.example.org/x", "secret": "secret-of-the-webhook"}


def ask(server: Any, method: str, path: str, **more: Any) -> Any:
    """Ask the API of a server."""
    answer = httpx.request(method, f"http://{server.http}/api/v1/{path}", trust_env=False, timeout=60, **more)
    assert answer.is_success, answer.text
    return answer.json()


def paste(server: Any) -> None:
    """Store two secrets."""
    ask(server, "POST", "llm-connections", json=CONNECTION)
    ask(server, "POST", "projects/*/alert-webhooks", json=WEBHOOK)


def problem(server: Any) -> str | None:
    """Return the error of the connection test about its key; one with a readable key fails later, and otherwise."""
    (connection,) = ask(server, "GET", "llm-connections")
    response = ask(server, "POST", f"llm-connections/{connection['id']}/test", json={})
    message = str(response["failure"]["message"])
    return message if "decrypted" in message or "encrypted" in message else None


def test_a_key_is_pasted_into_a_server_without_settings(tmp_path: Path) -> None:
    """A first start makes a key that only its owner reads; secrets go in at once, and open after a restart."""
    with a_server(tmp_path / "data") as server:
        paste(server)
        assert problem(server) is None
    file = tmp_path / "data" / KEY_FILE
    key = file.read_text()
    assert len(key.strip()) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list((tmp_path / "data").glob("*.part"))
    with a_server(tmp_path / "data") as server:
        assert problem(server) is None
    assert file.read_text() == key


def test_several_starts_make_one_key(tmp_path: Path) -> None:
    """If several processes make a key at the same time, there is one, whole, and nothing else is left."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: make_key(tmp_path), range(64)))
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]
    key = (tmp_path / KEY_FILE).read_text()
    make_key(tmp_path)
    assert (tmp_path / KEY_FILE).read_text() == key


def test_a_lost_key_is_reported_and_never_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without the file a server runs, makes no other key, and names the secrets and the file; with it all is well."""
    file = tmp_path / "data" / KEY_FILE
    with a_server(tmp_path / "data") as server:
        paste(server)
    key = file.read_text()
    file.unlink()
    with caplog.at_level(logging.ERROR), a_server(tmp_path / "data") as server:
        assert "encryption.key of the data directory is not there; put the file back" in str(problem(server))
        refused = httpx.post(
            f"http://{server.http}/api/v1/llm-connections", json=CONNECTION | {"name": "b"}, trust_env=False
        )
        assert refused.status_code == 400
        assert KEY_FILE in refused.text
        assert str(tmp_path) not in refused.text
    assert not file.exists()
    assert "2 secrets cannot be read: the key of the connection 'judge'" in caplog.text
    file.write_text(key)
    file.chmod(0o644)
    with a_server(tmp_path / "data") as server:
        assert problem(server) is None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/delivery",
    "collector/encryption_key.py",
    "collector/live",
    "collector/secrets.py",
    "evaluators/chat",
    "storage",
)
@pytest.mark.parametrize("content", ["", "not a key", "ab" * 31, "ab" * 2000])
def test_a_file_that_holds_no_key_is_reported_and_kept(tmp_path: Path, content: str) -> None:
    """A file that was cut short or edited is never taken for a key, nor replaced."""
    with a_server(tmp_path / "data") as server:
        paste(server)
    (tmp_path / "data" / KEY_FILE).write_text(content)
    with a_server(tmp_path / "data") as server:
        assert "does not hold a key of 64 hexadecimal digits; put the file back" in str(problem(server))
    assert (tmp_path / "data" / KEY_FILE).read_text() == content


def test_a_start_reports_a_key_file_that_holds_no_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so before there is a secret, which would be refused."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / KEY_FILE).write_text("not a key")
    with caplog.at_level(logging.ERROR), a_server(tmp_path / "data"):
        pass
    assert f"{tmp_path / 'data'}: no secret can be stored: encryption.key of the data directory does not" in caplog.text


def test_a_configured_key_takes_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Secrets of the generated key are encrypted again with the configured one, which alone is needed then."""
    file = tmp_path / "data" / KEY_FILE
    with a_server(tmp_path / "data") as server:
        paste(server)
    with caplog.at_level(logging.INFO), a_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as server:
        assert problem(server) is None
        version = ask(server, "GET", "llm-connections")[0]["version"]
    assert "encrypted 2 secrets with TRACEJURY_ENCRYPTION_KEY" in caplog.text
    assert version == 1
    file.unlink()
    with a_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as server:
        assert problem(server) is None
    with a_server(tmp_path / "data") as server:  # the configured key is taken away
        assert "put the file back, or set TRACEJURY_ENCRYPTION_KEY" in str(problem(server))
    assert not file.exists()


def test_secrets_of_a_lost_key_are_entered_again_under_a_configured_one(tmp_path: Path) -> None:
    """With a new configured key, as the errors advise, connections and webhooks take secrets again."""
    with a_server(tmp_path / "data") as server:
        paste(server)
    (tmp_path / "data" / KEY_FILE).unlink()
    with a_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as server:
        (connection,) = ask(server, "GET", "llm-connections")
        ask(server, "PUT", f"llm-connections/{connection['id']}", json=CONNECTION)
        assert problem(server) is None
        ask(server, "POST", "projects/*/alert-webhooks", json=WEBHOOK)
    with a_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as server:
        assert problem(server) is None


def test_a_configured_key_makes_no_file(tmp_path: Path) -> None:
    """With a configured key no other one is made; a key of another directory opens nothing, and is named."""
    with a_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as server:
        paste(server)
    assert not (tmp_path / "data" / KEY_FILE).exists()
    make_key(tmp_path / "data")
    with a_server(tmp_path / "data") as server:
        assert "encryption.key of the data directory is not the key that it was encrypted with" in str(problem(server))


def test_commands_that_look_make_no_key(tmp_path: Path) -> None:
    """A command over a data directory reads the key of the server, and makes none."""
    with pytest.raises(NoEncryptionKey, match="put the file back"):
        secrets_for_looking(tmp_path, None).encrypt("x", belongs_to="y")
    assert not list(tmp_path.iterdir())


@pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/delivery",
    "collector/encryption_key.py",
    "collector/live",
    "collector/secrets.py",
    "evaluators/chat",
    "storage",
)
def test_a_backup_has_no_key_and_restore_asks_for_it(tmp_path: Path) -> None:
    """A backup says that the key is not in it; `restore` names what cannot be read, and takes the key or its file."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    with a_server(data) as server:
        paste(server)
        made = run("backup", backup, "--server", f"http://{server.http}")
    assert made.exit_code == 0, made.output
    assert "2 secrets in it are encrypted" in made.output
    assert f"keep {KEY_FILE} of the data directory" in made.output
    key = (data / KEY_FILE).read_text().strip()
    assert key.encode() not in b"".join(path.read_bytes() for path in backup.iterdir())
    without = run("restore", backup, "--data", tmp_path / "without")
    assert without.exit_code == 0, without.output
    assert "2 secrets cannot be read: the key of the connection 'judge'" in without.output
    assert f"copy {KEY_FILE} of the old data directory to {tmp_path / 'without' / KEY_FILE}" in without.output
    assert not (tmp_path / "without" / KEY_FILE).exists()
    whole = run("restore", backup, "--data", tmp_path / "whole", "--encryption-key-file", data / KEY_FILE)
    assert whole.exit_code == 0, whole.output
    assert "cannot be read" not in whole.output
    assert stat.S_IMODE((tmp_path / "whole" / KEY_FILE).stat().st_mode) == 0o600
    with a_server(tmp_path / "whole") as server:
        assert problem(server) is None
    (tmp_path / "other").write_text("no key")
    wrong = run("restore", backup, "--data", tmp_path / "wrong", "--encryption-key-file", tmp_path / "other")
    assert wrong.exit_code != 0
    assert "does not hold a key" in wrong.output
    assert not (tmp_path / "wrong").exists()
    (tmp_path / "other").write_text("ab" * 32)
    of_another = run("restore", backup, "--data", tmp_path / "another", "--encryption-key-file", tmp_path / "other")
    assert of_another.exit_code == 1
    assert f"with the key of {tmp_path / 'other'}, 2 secrets cannot be read" in of_another.output


@pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/delivery",
    "collector/encryption_key.py",
    "collector/live",
    "collector/secrets.py",
    "evaluators/chat",
    "storage",
)
def test_restore_knows_a_configured_key(tmp_path: Path) -> None:
    """With the variable of the server set, `restore` says nothing of secrets that it opens."""
    with a_server(tmp_path / "data", encryption_key=ENCRYPTION_KEY) as server:
        paste(server)
        assert run("backup", tmp_path / "backup", "--server", f"http://{server.http}").exit_code == 0
    variable = {"TRACEJURY_ENCRYPTION_KEY": ENCRYPTION_KEY}
    restored = run("restore", tmp_path / "backup", "--data", tmp_path / "again", env=variable)
    assert restored.exit_code == 0, restored.output
    assert "cannot be read" not in restored.output
