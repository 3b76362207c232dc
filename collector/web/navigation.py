"""The pages of the menu, and who may see them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.access.caller import Caller
from collector.access.permission import Permission, requirements_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """An entry of the menu. `group` is the heading that entries share; `beside` are further paths it covers."""

    label: str
    path: str
    icon: str  # of static/icons.svg
    endpoint: Callable[..., object]  # whose requirements decide who sees the entry
    group: str = ""
    key: str = ""  # which opens the page after `g`
    beside: Sequence[str] = ()

    def covers(self, path: str) -> bool:
        """Return True if a page belongs to this menu entry."""
        return any(path == each or path.startswith(f"{each}/") for each in (self.path, *self.beside))


def may_use(caller: Caller, endpoint: Callable[..., object], method: str = "GET") -> bool:
    """Return True if the gate will let this caller use a page or form."""
    need = requirements_of(endpoint, method)
    return caller.may(need.permission) and (caller.sees_all or need.by_tenant or need.permission is Permission.OPEN)


def entries_for(caller: Caller, entries: Sequence[MenuEntry]) -> list[MenuEntry]:
    """Return the menu entries that this caller may open."""
    return [entry for entry in entries if may_use(caller, entry.endpoint)]
