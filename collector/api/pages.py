"""Lists over HTTP, a page at a time."""

from collections.abc import Sequence

MAX_PAGE = 10_000


def page_document(found: Sequence[object], page: int, size: int) -> dict[str, object]:
    """A page; `found` begins with its content, and goes beyond it where there are more pages."""
    content = list(found[:size])
    return {
        "content": content,
        "number": page,
        "size": size,
        "numberOfElements": len(content),
        "first": page == 0,
        "last": len(found) <= size,
    }
