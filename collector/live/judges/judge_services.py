"""The services for asking judges, put together: connections with their keys, budgets, the judges, their traces."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from collector.connection_text import parse_file_connections, parse_project_budgets
from collector.encryption_key import secrets_for_looking, secrets_of_server
from collector.live.budgets.budgets import Budgets
from collector.live.judges.connections import LlmConnections
from collector.live.judges.egress import EgressResolver, address_policy
from collector.live.judges.judges import Call, ConnectedJudges
from collector.secrets import Secrets
from collector.settings import Settings
from collector.settings_loading import environment_variable
from storage.store import Store

if TYPE_CHECKING:
    from collector.live.judges.judge_traces import JudgeTraces

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDoor:
    """Address of this server's OTLP listener over HTTP, as host:port, and the server's own key."""

    address: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeServices:
    """The services of judges. `close` MUST be called after the last use of a judge."""

    connections: LlmConnections
    budgets: Budgets
    judges: ConnectedJudges
    traces: "JudgeTraces | None"
    secrets: Secrets

    @classmethod
    def look(cls, store: Store, settings: Settings) -> Self:
        """Read the stored connections, for a command on a data directory; those of files as they were last stored."""
        secrets = secrets_for_looking(settings.data, _configured(settings))
        return cls._over(store, settings, None, secrets)

    @classmethod
    def open(cls, store: Store, settings: Settings, own_door: OwnDoor) -> Self:
        """Open the services of a server; connections of files are those of its settings.

        `own_door` is for the traces of its own calls, which are sent without TLS only.
        """
        traces = None
        if settings.judge_traces and settings.tls_cert is not None:
            log.warning("judge_traces is off: no address accepts spans without TLS")
        elif settings.judge_traces:
            # Importing the exporter takes a fifth of the time of a start.
            from collector.live.judges.judge_traces import JudgeTraces  # noqa: PLC0415 - see above

            traces = JudgeTraces(own_door.address, own_door.key)
        secrets = secrets_of_server(store, settings.data, _configured(settings))
        hub = cls._over(store, settings, traces, secrets)
        hub.connections.adopt(parse_file_connections(settings.llm_connections))
        return hub

    @classmethod
    def _over(cls, store: Store, settings: Settings, traces: "JudgeTraces | None", secrets: Secrets) -> Self:
        connections = LlmConnections(
            store.connections, secrets, environment_variable, egress=EgressResolver(address_policy(settings))
        )
        budgets = Budgets(store.spending)
        made: Callable[[Call], None] | None = None if traces is None else traces.record
        judges = ConnectedJudges(connections, budgets, parse_project_budgets(settings.project_budgets), made)
        return cls(connections=connections, budgets=budgets, judges=judges, traces=traces, secrets=secrets)

    def flush(self) -> None:
        """Send the waiting traces, while the listener for them is open."""
        if self.traces is not None:
            self.traces.flush()

    def close(self) -> None:
        """Close all but the judges, which their event loop closes."""
        if self.traces is not None:
            self.traces.close()


def _configured(settings: Settings) -> str | None:
    return None if settings.encryption_key is None else settings.encryption_key.get_secret_value()
