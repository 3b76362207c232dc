"""Responses of the API without a declared document: tables of SQL, and keys."""

from typing import Any

from collector.api.responses.wire import WireDocument


class ColumnView(WireDocument):
    """One column of an SQL answer."""

    name: str
    type: str


class TableView(WireDocument):
    """An SQL answer."""

    columns: tuple[ColumnView, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


class KeyView(WireDocument):
    """An API key; `key` is its text if it is new."""

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
        """Return the state of the key: disabled, enabled, or the expiry."""
        if not self.enabled:
            return "disabled"
        return f"until {self.expires_at}" if self.expires_at else "enabled"
