"""Ids of traces and spans, as bodies and addresses have them."""

from typing import Annotated

from pydantic import Field

HexTrace = Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")]
HexSpan = Annotated[str, Field(pattern="^[0-9a-fA-F]{16}$")]
