"""The page about webhooks: its programs verify requests of a real server, and its examples equal real bodies."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.delivery.sending import _DELAYS_S
from collector.delivery.signing import signature_headers
from collector.setting_groups import WebhookSettings
from collector.settings import Settings
from tests.alerting import SECRET, Taken, a_receiver, an_alerting
from tests.conftest import GOLDEN
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "webhooks.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    """Return the examples of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def programs() -> list[Callable[[bytes, dict[str, str], str], dict[str, Any]]]:
    """Return the ways to verify that the page shows."""
    programs_read = []
    for text in blocks("python verify"):
        names: dict[str, Any] = {}
        exec(text, names)  # noqa: S102 - the program that the page recommends
        programs_read.append(names["event_of"])
    return programs_read


@pytest.mark.parametrize("secret", [SECRET, "your-signing-secret"])
def test_the_programs_of_the_page_verify_what_is_sent(tmp_path: Path, secret: str) -> None:
    """Each program on the page takes a real delivery, and refuses it with another body or another secret."""
    with a_receiver() as (url, script), an_alerting(tmp_path) as alerting:
        webhook = alerting.webhook(url, secret=secret)
        alerting.open()
        alerting.settled(webhook, "delivered")
        taken: Taken = script.taken[0]
    headers = dict(taken.headers)
    assert len(programs()) == 3
    for event_of in programs():
        assert event_of(taken.body, headers, secret)["type"] == "alert.opened"
        for body, key in ((taken.body + b" ", secret), (taken.body, "another")):
            with pytest.raises(Exception, match=r"(?i)not ours|no matching signature"):
                event_of(body, headers, key)


def test_old_requests_are_refused_where_the_page_says_so() -> None:
    """Two of the programs check the time and refuse old requests, and the seeds' one does not."""
    headers = signature_headers(b"{}", event_id="e", timestamp_s=1_700_000_000, secrets=[SECRET])
    lowered = {name.lower(): value for name, value in headers.items()}
    refused = []
    for event_of in programs():
        try:
            event_of(b"{}", lowered, SECRET)
            refused.append(False)
        except Exception as error:  # noqa: BLE001 - each program has an error of its own
            refused.append("old" in str(error))
    assert refused == [True, True, False]


def test_the_body_of_the_page_is_what_is_sent() -> None:
    """The example is the golden body, field by field."""
    golden = json.loads((GOLDEN / "webhooks" / "json.json").read_text(encoding="utf-8"))
    assert json.loads(blocks("json body")[0]) == golden["alert.opened"]


def test_the_configuration_of_the_page_loads() -> None:
    """The example is a configuration, and the page names every key that a webhook has."""
    Settings.model_validate(yaml.safe_load(blocks("yaml configuration")[0]))
    keys = [field.alias or name for name, field in WebhookSettings.model_fields.items()]
    assert [key for key in keys if f"`{key}`" not in PAGE] == []


def test_the_delays_of_the_page_are_the_delays() -> None:
    """The retry delays on the page are the real ones."""
    units = {"s": 1, "min": 60, "h": 3600}
    delays = re.findall(r"(\d+) (s|min|h)\b", PAGE.split("tried again after ")[1].split(", each give")[0])
    assert tuple(int(number) * units[unit] for number, unit in delays) == _DELAYS_S
