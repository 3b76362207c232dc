"""Parts of a test case that are made when an evaluator first asks for them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any


class DeferredParts(Mapping[str, Any]):
    """Values by their keys, each made once, when somebody asks for it. What is made as None is not there."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        self._makers = makers
        self._made: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the user's value
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - the user's value
        """The value of a key; the default where it is not there."""
        if key not in self._made:
            maker = self._makers.get(key)
            if maker is None:
                return default
            self._made[key] = maker()
        value = self._made[key]
        return default if value is None else value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._makers if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def with_default(self, key: str, value: object) -> "DeferredParts":
        """These values, and another one where there is none under its key."""
        makers = {name: partial(self.get, name) for name in self._makers}
        return DeferredParts({**makers, key: partial(self.get, key, value)})


def with_default(values: Mapping[str, Any], key: str, value: object) -> Mapping[str, Any]:
    """Values of a test case, and another one where there is none under its key; nothing is made for that."""
    if isinstance(values, DeferredParts):
        return values.with_default(key, value)
    return values if key in values else {**values, key: value}
