"""Receivers of webhooks: which are valid, which of their fields are secret, and how they are reached."""

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import httpx

from collector.addresses import AddressPolicy
from collector.delivery.signing import BadSecret, check_secret
from collector.encryption_key import owner_of_webhook
from collector.secrets import CannotDecrypt, NoEncryptionKey, Secrets
from collector.setting_groups import EVENTS
from evaluators.chat.urls import BadUrl
from storage.alerting.outbox import RUN_REGRESSION, TEST, Outbox, WebhookEvent
from storage.alerting.webhook_options import Template, WebhookOptions, webhook_options
from storage.alerting.webhooks import Webhook, Webhooks, WebhookText
from storage.errors import Overloaded, require_version
from storage.records import EventType

SECRET_URLS: Final[frozenset[Template]] = frozenset({"slack", "teams"})
"""Templates whose URLs are secrets: knowing one is enough to post."""

_KEYS: Final[frozenset[Template]] = frozenset({"pagerduty"})
"""Templates whose secret is a key in the body, not a signing secret. A rotation does not keep the previous key."""

EVERY_PROJECT = "*"
"""The name that stands for all projects in place of a project's name."""

_NS = 10**9
_TRIES: Final = 3


class BadWebhook(ValueError):
    """Refusal of a webhook; the message says why, without secrets.

    `field` is the field at fault, "" if none or several; `what` is the message without it.
    """

    def __init__(self, what: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {what}" if field else what)
        self.field = field
        self.what = what


class FromFile(Exception):
    """Refusal to change a webhook of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedWebhook(WebhookOptions):
    """Requested settings of a receiver.

    If `url` is None, the URL is kept. If `secret` is None, the secret is removed, unless `keeps_secret`. If `events` is
    None, all events are sent, except RUN_REGRESSION if the receiver filters alerts or is PagerDuty.
    """

    url: str | None
    secret: str | None
    keeps_secret: bool = False
    events: Sequence[EventType] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWebhook:
    """A configured webhook. `project` None: all projects."""

    project: str | None
    requested: RequestedWebhook
    previous_secret: str | None = None

    @property
    def webhook_id(self) -> str:
        """Return an id that stays the same for the same project and URL."""
        text = json.dumps(["file", self.project, self.requested.url])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Address of a webhook, and its secrets in use, newest first."""

    url: str
    template: Template
    project: str | None
    secrets: Sequence[str]

    @property
    def signing_secrets(self) -> Sequence[str]:
        """Return the secrets that sign."""
        return () if self.template in _KEYS else self.secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secrets:
    """The encrypted fields."""

    url: str | None = None  # encrypted if the template's URLs are secrets
    secret: str | None = None
    previous: str | None = None


class Receivers:
    """The webhooks of a server. Thread-safe, but not to be called in the writer's thread, since calls wait for it."""

    def __init__(
        self,
        webhooks: Webhooks,
        outbox: Outbox,
        policy: AddressPolicy,
        *,
        secrets: Secrets,
        rotation_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._webhooks = webhooks
        self._outbox = outbox
        self._policy = policy
        self._at_rest = secrets
        self._rotation_ns = int(rotation_s * _NS)
        self._clock = clock
        self._changing = threading.Lock()  # held from reading a webhook to replacing or deleting it
        self._files: dict[str, FileWebhook] = {}

    def take_files(self, files: Sequence[FileWebhook]) -> None:
        """Store the webhooks of the configuration, and delete those that it no longer has. Call it once, at the start.

        Raises:
            BadWebhook: a webhook is not valid, or occurs twice.
            Overloaded: the store does not take them.
        """
        self._files = {each.webhook_id: each for each in files}
        if len(self._files) < len(files):
            raise BadWebhook("a project has the same URL twice")
        stored = {each.webhook_id: each.version for each in self._webhooks.all() if each.origin == "FILE"}
        for webhook_id, file in self._files.items():
            secrets = self._checked(file.requested, _secrets_of_file(file))
            text = _text(file.requested, secrets, sealed=None, previous_until_ns=None)
            if webhook_id in stored:
                self._webhooks.replace(webhook_id, stored[webhook_id], text, self._now_ns())
            else:
                self._webhooks.create(webhook_id, file.project, text, self._now_ns(), origin="FILE")
        for webhook_id in stored.keys() - self._files.keys():
            self._webhooks.delete(webhook_id, stored[webhook_id], self._now_ns())

    def project(self, text: str, tenant: str | None = None) -> str | None:
        """Return the name of the project with this id; other text is returned as a name, `*` as None.

        With `tenant`, only ids of this tenant's projects, and of projects without a tenant, are known.
        """
        return None if text == EVERY_PROJECT else self._webhooks.project(text, tenant=tenant) or text

    def all(self, tenant: str | None = None) -> list[Webhook]:
        """Return the webhooks of all projects of a tenant (None: of all tenants), oldest first."""
        return self._webhooks.all(tenant=tenant)

    def of_project(self, project: str | None, tenant: str | None = None) -> list[Webhook]:
        """Return a tenant's webhooks of one project, oldest first; if `project` is None, those that cover all projects.

        If `tenant` is None, return those of all tenants.
        """
        return self._webhooks.of_project(project, tenant=tenant)

    def get(self, project: str | None, webhook_id: str) -> Webhook | None:
        """Return a webhook of a project."""
        webhook = self._webhooks.get(webhook_id)
        return webhook if webhook and webhook.project == project else None

    def create(self, project: str | None, requested: RequestedWebhook, *, tenant: str = "") -> Webhook:
        """Create a webhook; without a tenant it gets the alerts of all tenants, else those of its tenant.

        Raises:
            BadWebhook: a field is not valid.
            Overloaded: the database cannot be written now.
        """
        if requested.url is None:
            raise BadWebhook("a webhook needs one", field="url")
        webhook_id = uuid.uuid4().hex
        secrets = self._checked(requested, _Secrets(url=requested.url, secret=requested.secret or None))
        text = _text(requested, secrets, sealed=self._sealed(webhook_id, requested, secrets), previous_until_ns=None)
        self._webhooks.create(webhook_id, project, text, self._now_ns(), tenant=tenant)
        return self._there(webhook_id)

    def replace(self, webhook: Webhook, requested: RequestedWebhook, *, seen: Collection[int] | None = None) -> Webhook:
        """Replace a webhook. A new secret signs at once; the previous one signs, too, until the rotation is over.

        With `seen`, the webhook is replaced only if it has one of these versions.

        Raises:
            Stale: the webhook has another version.
            BadWebhook: a new value is not valid, or the webhook was deleted meanwhile.
            FromFile: the webhook comes from the configuration.
            Overloaded: the database cannot be written now.
        """
        if webhook.origin == "FILE":
            raise FromFile("this webhook is in the configuration; change it there")
        with self._changing:
            self._change(
                webhook.webhook_id,
                seen,
                lambda now: self._webhooks.replace(
                    now.webhook_id, now.version, self._replaced(now, requested), self._now_ns()
                ),
            )
            return self._there(webhook.webhook_id)

    def delete(self, webhook: Webhook, *, seen: Collection[int] | None = None) -> None:
        """Delete a webhook, if it has one of the versions in `seen`.

        Raises:
            Stale: the webhook has another version.
            BadWebhook: the webhook was deleted meanwhile.
            FromFile: the webhook comes from the configuration.
            Overloaded: the database cannot be written now.
        """
        if webhook.origin == "FILE":
            raise FromFile("this webhook is in the configuration; remove it there")
        with self._changing:
            self._change(
                webhook.webhook_id,
                seen,
                lambda now: self._webhooks.delete(now.webhook_id, now.version, self._now_ns()),
            )

    def test(self, webhook: Webhook) -> str | None:
        """Send a test to a webhook, enabled or not; return the id of the delivery, or None if the webhook was deleted.

        Raises:
            Overloaded: the database cannot be written now.
        """
        event = WebhookEvent(
            tenant=webhook.tenant,
            event_id=uuid.uuid4().hex,
            project=webhook.project,
            type=TEST,
            alert_id=None,
            document={},
            at_ns=self._now_ns(),
        )
        return self._outbox.send(event, only_for=webhook.webhook_id)

    def replay(self, webhook: Webhook, delivery_id: str) -> bool:
        """Queue a delivery again; return False if it is pending already, or does not exist.

        Raises:
            Overloaded: the database cannot be written now.
        """
        return self._outbox.replay(webhook.webhook_id, delivery_id, self._now_ns())

    def receiver(self, webhook_id: str) -> Receiver | None:
        """Return how to reach a webhook now; None if it was deleted.

        Raises:
            BadWebhook: the secrets cannot be decrypted.
        """
        webhook = self._webhooks.get(webhook_id)
        if webhook is None:
            return None
        secrets = self._secrets(webhook)
        until_ns = webhook.previous_until_ns
        keys = [secrets.secret, secrets.previous if until_ns is None or self._now_ns() < until_ns else None]
        return Receiver(
            url=secrets.url or webhook.url,
            template=webhook.template,
            project=webhook.project,
            secrets=tuple(key for key in keys if key),
        )

    def _change(self, webhook_id: str, seen: Collection[int] | None, change: Callable[[Webhook], bool]) -> None:
        """Change a webhook's current version; retry if it was changed meanwhile, for example by being switched off."""
        for _ in range(_TRIES):
            webhook = self._there(webhook_id)
            require_version(webhook.version, seen)
            if change(webhook):
                return
        raise Overloaded("the webhook is being changed")

    def _replaced(self, webhook: Webhook, requested: RequestedWebhook) -> WebhookText:
        """Apply the requested settings to a stored webhook."""
        old = self._secrets(webhook)
        _refuse_to_move_secrets(webhook, old, requested)
        url = old.url if requested.url in {None, webhook.url} else requested.url
        secrets, until_ns = self._rotated(webhook, old, requested)
        secrets = self._checked(requested, replace(secrets, url=url))
        sealed = self._sealed(webhook.webhook_id, requested, secrets)
        return _text(requested, secrets, sealed=sealed, previous_until_ns=until_ns)

    def _there(self, webhook_id: str) -> Webhook:
        webhook = self._webhooks.get(webhook_id)
        if webhook is None:
            raise BadWebhook("the webhook was deleted meanwhile")
        return webhook

    def _checked(self, requested: RequestedWebhook, secrets: _Secrets) -> _Secrets:
        """Check the URL and the secrets of a request; return the secrets unchanged."""
        try:
            self._policy.check(secrets.url or "")
        except BadUrl as error:
            raise BadWebhook(str(error), field="url") from error
        try:
            for secret in filter(None, (secrets.secret, secrets.previous)):
                check_secret(secret)
        except BadSecret as error:
            raise BadWebhook(str(error), field="secret") from error
        if requested.template in _KEYS and secrets.secret is None:
            raise BadWebhook(f"the template {requested.template} needs the routing key as the secret", field="secret")
        if requested.template in _KEYS and requested.digest_minutes is not None:
            message = f"the template {requested.template} has an incident for each alert, no digests"
            raise BadWebhook(message, field="digestMinutes")
        return secrets

    def _rotated(self, webhook: Webhook, old: _Secrets, requested: RequestedWebhook) -> tuple[_Secrets, int | None]:
        """Return the secrets after a change, and until when the previous one is used."""
        if requested.keeps_secret or (requested.secret or None) == old.secret:
            return _Secrets(secret=old.secret, previous=old.previous), webhook.previous_until_ns
        if not requested.secret or not old.secret or requested.template in _KEYS:
            return _Secrets(secret=requested.secret or None), None
        return _Secrets(secret=requested.secret, previous=old.secret), self._now_ns() + self._rotation_ns

    def _sealed(self, webhook_id: str, requested: RequestedWebhook, secrets: _Secrets) -> bytes | None:
        """Encrypt the secret fields; None if there are none."""
        kept = secrets if requested.template in SECRET_URLS else replace(secrets, url=None)
        if not any(asdict(kept).values()):
            return None
        try:
            return self._at_rest.encrypt(json.dumps(asdict(kept)), belongs_to=owner_of_webhook(webhook_id))
        except NoEncryptionKey as error:
            raise BadWebhook(str(error), field="url" if kept.url else "secret") from error

    def _secrets(self, webhook: Webhook) -> _Secrets:
        """Decrypt the secret fields, with the URL."""
        file = self._files.get(webhook.webhook_id)
        if file is not None:
            return _secrets_of_file(file)
        if webhook.sealed is None:
            return _Secrets(url=webhook.url)
        try:
            text = self._at_rest.decrypt(webhook.sealed, belongs_to=owner_of_webhook(webhook.webhook_id))
            kept = _Secrets(**json.loads(text))
        except (NoEncryptionKey, CannotDecrypt) as error:
            raise BadWebhook(str(error), field="secret") from error
        return replace(kept, url=kept.url or webhook.url)

    def _now_ns(self) -> int:
        return int(self._clock() * _NS)


def _refuse_to_move_secrets(webhook: Webhook, old: _Secrets, requested: RequestedWebhook) -> None:
    """Refuse a change that would send a stored secret to a new address, or show it: its author may not know it."""
    moves = requested.url not in {None, webhook.url, old.url}
    tells = requested.template in _KEYS and (moves or webhook.template not in _KEYS)
    if tells and requested.keeps_secret and old.secret:
        raise BadWebhook(
            f"give it again, because the template {requested.template} sends it to the URL", field="secret"
        )
    if (
        webhook.template in SECRET_URLS
        and requested.template not in SECRET_URLS
        and requested.url in {None, webhook.url}
    ):
        raise BadWebhook("give it again, because it was kept as a secret and would be shown", field="url")


def _events_of(requested: RequestedWebhook) -> tuple[EventType, ...]:
    if requested.events is not None:
        return tuple(requested.events)
    is_of_alerts = requested.rules is not None or requested.severities is not None or requested.template == "pagerduty"
    return tuple(each for each in EVENTS if not (is_of_alerts and each == RUN_REGRESSION))


def _text(
    requested: RequestedWebhook, secrets: _Secrets, *, sealed: bytes | None, previous_until_ns: int | None
) -> WebhookText:
    url = httpx.URL(secrets.url or "")
    return WebhookText(
        url=f"{url.scheme}://{url.netloc.decode('ascii')}/…" if requested.template in SECRET_URLS else str(secrets.url),
        events=_events_of(requested),
        sealed=sealed,
        has_secret=secrets.secret is not None,
        previous_until_ns=previous_until_ns,
        **webhook_options(requested),
    )


def _secrets_of_file(file: FileWebhook) -> _Secrets:
    return _Secrets(url=file.requested.url, secret=file.requested.secret or None, previous=file.previous_secret or None)
