"""Saved views on the wire."""

from typing import Annotated

from msgspec import Meta

from collector.api.answers.wire import WireDocument


class SavedViewDocument(WireDocument):
    """A list of traces that somebody named."""

    id: str
    tenant: str
    name: str
    project_name: Annotated[str | None, Meta(description="That its filters name.")]
    query: Annotated[str, Meta(description="Of the address of `/traces`.")]
    path: Annotated[str, Meta(description="The link that opens it, whatever it shows by then.")]
    version: int
    created_by: Annotated[str | None, Meta(description="The name of a key.")]
    created_at: str
    updated_at: str
