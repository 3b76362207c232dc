"""The pages that the menu names, and which of them somebody may see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.access.caller import Caller
from collector.access.permission import Permission, need_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """One line of the menu. `group` is told above those that share it; `beside` are its other paths."""

    label: str
    path: str
    icon: str  # of static/icons.svg
    endpoint: Callable[..., object]  # which says what is needed to see it
    group: str = ""
    beside: Sequence[str] = ()

    def covers(self, path: str) -> bool:
        """Whether a page is one of its own."""
        return any(path == each or path.startswith(f"{each}/") for each in (self.path, *self.beside))


def may_use(caller: Caller, endpoint: Callable[..., object], method: str = "GET") -> bool:
    """Whether a page, or a form, is for this caller: the same question that the gate will ask."""
    need = need_of(endpoint, method)
    return caller.may(need.permission) and (caller.sees_all or need.by_tenant or need.permission is Permission.OPEN)


def entries_for(caller: Caller, entries: Sequence[MenuEntry]) -> list[MenuEntry]:
    """The lines that lead somewhere for this caller."""
    return [entry for entry in entries if may_use(caller, entry.endpoint)]
