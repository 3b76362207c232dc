"""Saved views on the wire."""

from typing import Annotated

from collector.api.answers.wire import WireDocument, about


class SavedViewDocument(WireDocument):
    """A named list of traces."""

    id: str
    tenant: str
    name: str
    project_name: Annotated[str | None, about("That its filters name.")]
    query: Annotated[str, about("The query string of the `/traces` page.")]
    path: Annotated[str, about("The link that opens it, whatever it shows by then.")]
    version: int
    created_by: Annotated[str | None, about("The name of a key.")]
    created_at: str
    updated_at: str
