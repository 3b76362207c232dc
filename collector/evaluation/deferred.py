"""Parts of a test case that are made on first use."""

from collections.abc import Iterator, Mapping
from typing import Any


class DeferredParts(Mapping[str, Any]):
    """Map of an object's attributes under other keys; each attribute is read once, on first use.

    A value that is None counts as missing, unless it has a default.
    """

    __slots__ = ("_defaults", "_made", "_names", "_parts")

    def __init__(
        self,
        parts: object,
        names: Mapping[str, str],
        *,
        defaults: Mapping[str, Any] | None = None,
        made: dict[str, Any] | None = None,
    ) -> None:
        """Set up with the attribute of `parts` for each key; `made` holds the values that were read already, by key."""
        self._parts = parts
        self._names = names
        self._defaults = {} if defaults is None else defaults
        self._made = {} if made is None else made

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the user's value
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - the user's value
        """Return the value of a key, or the default."""
        if key in self._made:
            value = self._made[key]
        elif (name := self._names.get(key)) is None:
            value = None
        else:
            value = self._made[key] = getattr(self._parts, name)
        if value is None:
            value = self._defaults.get(key)
        return default if value is None else value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key in dict.fromkeys((*self._names, *self._defaults)) if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def read(self, key: str) -> Any:  # noqa: ANN401 - the user's value
        """Return the value of a key if it was read before, else None; never read the attribute."""
        return self._made.get(key)

    def with_default(self, key: str, value: object) -> "DeferredParts":
        """Return these values with a default for a key; both share the values that were read."""
        defaults = {**self._defaults, key: self._defaults.get(key, value)}
        return DeferredParts(self._parts, self._names, defaults=defaults, made=self._made)


def with_default(values: Mapping[str, Any], key: str, value: object) -> Mapping[str, Any]:
    """Return values with a default for a key, without reading any."""
    if isinstance(values, DeferredParts):
        return values.with_default(key, value)
    return values if key in values else {**values, key: value}
