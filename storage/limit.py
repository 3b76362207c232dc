"""Limits as values. As text, a limit names its value, the setting that changes it, and the remedy, for errors."""

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that a request can exceed.

    Its text is the end of an error: `4,096 bytes (setting max_header_bytes): send fewer or shorter headers`.
    """

    value: float
    unit: str  # of the value: bytes, s, rules
    remedy: str  # in the imperative, to the client or the operator
    setting: str | None = None  # the name of the setting that changes it; None: fixed

    def __str__(self) -> str:
        changed_by = "fixed" if self.setting is None else f"setting {self.setting}"
        return f"{self._amount()} ({changed_by}): {self.remedy}"

    def _amount(self) -> str:
        if self.unit == "bytes" and self.value and self.value % _MIB == 0:
            return f"{self.value / _MIB:,.0f} MiB"
        return f"{self.value:,} {self.unit}" if self.value == int(self.value) else f"{self.value:g} {self.unit}"
