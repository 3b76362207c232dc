"""Saved views on the wire."""

from typing import Annotated

from collector.api.responses.wire import WireDocument, doc


class SavedViewDocument(WireDocument):
    """Named settings of the list of traces."""

    id: str
    tenant: str
    name: str
    project_name: Annotated[str | None, doc("The project that its filters name.")]
    query: Annotated[str, doc("The query string of the `/traces` page.")]
    path: Annotated[str, doc("The link that opens the view, with its settings at that time.")]
    version: int
    created_by: Annotated[str | None, doc("The name of a key.")]
    created_at: str
    updated_at: str
