"""The API's JSON documents as the values that are printed; whatever does not fit them is not our server's answer."""

from typing import Annotated

from pydantic import BeforeValidator

from collector.api.base.times import instant_ns
from collector.cli.answer_view import AnswerView


def _instant_ns(text: object) -> object:
    """RFC 3339 with any number of digits as nanoseconds since the Unix epoch; anything but text as it is."""
    if not isinstance(text, str):
        return text
    return instant_ns(text)


InstantNs = Annotated[int, BeforeValidator(_instant_ns)]


class ColumnView(AnswerView):
    """One column of an SQL answer."""

    name: str
    type: str


class TableView(AnswerView):
    """An SQL answer."""

    columns: tuple[ColumnView, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool


class KeyView(AnswerView):
    """An API key; `key` is its text, where it was made just now."""

    id: str
    name: str
    role: str
    tenant_id: str | None
    enabled: bool
    hint: str
    expires_at: str | None
    last_used_at: str | None
    key: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Whether it opens anything, and how long."""
        if not self.enabled:
            return "disabled"
        return f"until {self.expires_at}" if self.expires_at else "enabled"
