"""What the declaration of a stored field says beside its type, for all that is derived from it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """Texts of a field: its label and hint in forms, and its description in documents of the API and settings."""

    label: str
    hint: str = ""
    text: str | None = None
