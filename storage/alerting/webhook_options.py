"""Settings of receivers of notifications, each declared once. Loads no database."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal, TypeAlias

from annotated_types import Ge, Le, Len

from storage.described import Described
from storage.records import Severity

Template: TypeAlias = Literal["json", "slack", "teams", "pagerduty"]

MOST_DIGEST_MINUTES: Final = 10_080
"""Longest interval of digests: a week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Settings of a receiver that are requested, stored and shown as they are.

    API, configuration, form and page derive their fields from this declaration; a new one also needs a column.
    """

    template: Annotated[Template, Described(label="Format")] = "json"
    enabled: Annotated[bool, Described(label="Enabled")] = True
    rules: Annotated[
        Sequence[str] | None,
        Len(1, 200),
        Described(
            label="Rules and metric monitors",
            hint="Names or ids, one per line. Leave empty for all.",
            text="The rules and metric monitors whose alerts are sent; null: all.",
        ),
    ] = None
    severities: Annotated[
        Sequence[Severity] | None,
        Len(1, 3),
        Described(label="Severities", hint="Select none for all.", text="Severities of the alerts sent; null: all."),
    ] = None
    digest_minutes: Annotated[
        int | None,
        Ge(1),
        Le(MOST_DIGEST_MINUTES),
        Described(
            label="Minutes between digests",
            hint="Leave empty to send each event at once. 60 sends at most one message an hour, 1440 one a day.",
            text="Minutes between messages, each with all events since the last; null: each event at once.",
        ),
    ] = None


def webhook_options(source: object) -> dict[str, Any]:
    """Return the fields of `WebhookOptions` of any object that has them as attributes, by name."""
    return {each.name: getattr(source, each.name) for each in fields(WebhookOptions)}
