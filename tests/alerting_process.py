"""A process that opens alerts and delivers them, to be killed at any moment: DATA URL FIRST COUNT on the command line.

It prints the id of each alert once its transaction is committed, and goes on delivering until it is ended.
"""

import sys
import threading
import time
from pathlib import Path

from collector.addresses import AddressPolicy
from collector.delivery.deliverer import Deliverer
from collector.delivery.receivers import FileWebhook, Receivers, RequestedWebhook
from collector.delivery.sending import Sender
from collector.secrets import Secrets
from storage.store import Store
from tests.alerting import LOOPBACK, SECRET, a_finding, as_it_is


def main(data: str, url: str, first: str, count: str) -> None:
    """Open `count` alerts from number `first` on, repeating those that an earlier process may have opened."""
    policy = AddressPolicy(LOOPBACK)
    with Store.open(Path(data)) as store:
        receivers = Receivers(store.webhooks, store.outbox, policy, secrets=Secrets(None), rotation_s=0)
        receivers.take_files([FileWebhook(project="shop", requested=RequestedWebhook(url=url, secret=SECRET))])
        deliverer = Deliverer(store.outbox, receivers, Sender(policy, as_it_is))
        deliverer.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for number in range(int(first), int(first) + int(count)):
            finding = a_finding(number)
            store.alerts.open(finding, time.time_ns())
            sys.stdout.write(f"{finding.alert_id}\n")
            sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
