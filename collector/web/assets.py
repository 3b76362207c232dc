"""The style and the scripts of the pages, at addresses that change with what they hold."""

import hashlib
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs

router = APIRouter()

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FILES: Final = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
_DIGEST: Final = hashlib.sha256(b"\0".join(_FILES.values())).hexdigest()[:16]
"""One for all, so that scripts import each other by their names."""


def asset(name: str) -> str:
    """Where a file of `static` is found."""
    if name not in _FILES:
        raise KeyError(name)
    return f"/static/{_DIGEST}/{name}"


@router.get("/static/{digest}/{name}")
@needs(Permission.OPEN)
def show_asset(digest: str, name: str) -> Response:
    """One file, which stays what it is as long as its address does."""
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
    """The picture that browsers ask for by themselves."""
    return show_asset(_DIGEST, "icon.svg")


_NONE: Final = "default-src 'none'; sandbox"
