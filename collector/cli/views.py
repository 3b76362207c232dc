"""Responses of the API without a declared document: tables of SQL, and keys."""

from collector.cli.answer_view import AnswerView


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
