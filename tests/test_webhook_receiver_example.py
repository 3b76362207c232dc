"""The receiver of the page on webhooks takes what the server signs, and nothing else."""

import subprocess
import sys
from pathlib import Path

import httpx

from tests.offline import an_offline_server
from tests.source_tree import ROOT

SCRIPT = ROOT / "docs" / "examples" / "webhook_receiver.py"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
REFUSED = "refused: not ours, or too old"


def test_the_receiver_of_the_page_takes_what_the_server_signs(tmp_path: Path) -> None:
    """A test of the server is printed, and one by another secret or without a signature is refused."""
    settings = {"webhook_private_hosts": ["127.0.0.1"], "encryption_key": "a passphrase of the tests"}
    command = [sys.executable, str(SCRIPT), "0"]
    with (
        an_offline_server(tmp_path / "data", **settings) as api,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"HOOK_SECRET": SECRET}) as receiver,
    ):
        assert receiver.stdout is not None
        lines = map(str.strip, receiver.stdout)
        try:
            url = next(lines).split()[-1]
            for secret, line in ((SECRET, "webhook.test"), ("a secret of another", REFUSED)):
                webhook = api.ask("POST", "projects/shop/alert-webhooks", 201, json={"url": url, "secret": secret})
                api.answer("POST", f"projects/shop/alert-webhooks/{webhook['id']}/test")
                assert next(lines) == line
            assert httpx.post(url, content=b"{}").status_code == httpx.codes.UNAUTHORIZED
            assert next(lines) == REFUSED
        finally:
            receiver.kill()
