"""The style, the scripts, the font and the icons of the pages, at addresses that change with their content."""

import hashlib
import re
from pathlib import Path
from typing import Final

from fastapi.responses import Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.web.visitor import page_router

router = page_router()

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_FILES: Final = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
_DIGEST: Final = hashlib.sha256(b"\0".join(_FILES.values())).hexdigest()[:16]
"""One digest for all files, so that scripts can import each other by relative path."""

ICONS: Final = frozenset(re.findall(r'<symbol id="([a-z0-9-]+)"', _FILES["icons.svg"].decode()))


def asset(name: str) -> str:
    """Return the path of a file of `static`, with its digest."""
    if name not in _FILES:
        raise KeyError(name)
    return f"/static/{_DIGEST}/{name}"


def icon(name: str) -> Markup:
    """Return an icon of `icons.svg`. It is hidden from screen readers, so put text beside it."""
    if name not in ICONS:
        raise KeyError(name)
    address = f"{asset('icons.svg')}#{name}"
    return Markup('<svg class="icon" width="16" height="16" aria-hidden="true"><use href="{}"/></svg>').format(address)


@router.get("/static/{digest}/{name}")
@needs(Permission.OPEN)
def show_asset(digest: str, name: str) -> Response:
    """Serve a file of `static`; browsers cache it for a year if the path has the current digest, else not at all."""
    content = _FILES.get(name)
    if content is None:
        raise HTTPException(404, "no such file")
    lasting = "public, max-age=31536000, immutable" if digest == _DIGEST else "no-store"
    return Response(
        content,
        media_type=_TYPES[Path(name).suffix],
        headers={"cache-control": lasting, "content-security-policy": _NONE},
    )


@router.get("/favicon.ico")
@needs(Permission.OPEN)
def show_icon() -> Response:
    """Serve `/favicon.ico`."""
    return show_asset(_DIGEST, "icon.svg")


_NONE: Final = "default-src 'none'; sandbox"
