"""The receivers that the configuration names."""

from collections.abc import Sequence

from pydantic import SecretStr

from collector.delivery.receivers import EVERY_PROJECT, FileWebhook, RequestedWebhook
from collector.setting_groups import WebhookSettings
from collector.settings import BadSettings
from collector.settings_loading import environment_variable
from storage.alerting.webhook_options import webhook_options


def file_webhooks(configured: Sequence[WebhookSettings]) -> list[FileWebhook]:
    """Return the configured webhooks, with the values of the variables that they name.

    Raises:
        BadSettings: a variable is not set.
    """
    return [
        FileWebhook(
            project=None if each.project == EVERY_PROJECT else each.project,
            requested=RequestedWebhook(
                url=_value(each.url, each.urlEnv),
                secret=_value(each.secret, each.secretEnv),
                events=each.events,
                **webhook_options(each),
            ),
            previous_secret=_value(each.previousSecret, each.previousSecretEnv),
        )
        for each in configured
    ]


def _value(written: SecretStr | None, variable: str | None) -> str | None:
    if variable is None:
        return None if written is None else written.get_secret_value()
    value = environment_variable(variable)
    if not value:
        raise BadSettings(f"alert_webhooks: the variable {variable} is not set")
    return value
