"""Datasets: listing them, adding items of traces, and annotating traces."""

import asyncio
from typing import Any, Literal

from pydantic import BaseModel, Field

from collector.access.permission import Permission
from collector.api.responses.offline import DatasetDocument, VersionDocument
from collector.mcp.client import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.local_files import is_file_name
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows

_MOST_DATASETS = 200


class ListDatasets(Arguments):
    """No arguments."""


@shows(DatasetDocument, "id", "name", "description", "latestVersion", "latestItemCount")
class DatasetLine(BaseModel):
    """A dataset of a list."""


class ListedDatasets(ToolOutput):
    """Datasets, by name."""

    datasets: list[DatasetLine]
    files: list[str] = Field(
        description="Of `tracejury mcp`: files of its folder that may hold items, for get_dataset and run_evaluation."
    )


async def list_datasets(api: Api, arguments: ListDatasets) -> ListedDatasets:  # noqa: ARG001 - a tool takes its arguments
    """List datasets by name, and the files of items that can be read here."""
    datasets = await api.listed("/api/v1/datasets", _MOST_DATASETS)
    return ListedDatasets(
        datasets=datasets,
        files=[] if api.files is None else await asyncio.to_thread(api.files.names),
    )


class GetDataset(Arguments):
    """The dataset."""

    name: str = Field(description="Name of a dataset; for `tracejury mcp`, also path of a file of items.")
    version: int | None = Field(default=None, ge=1, description="Without it the latest.")
    page: int = Field(default=0, ge=0)
    limit: int = Field(default=20, ge=1, le=100)


class ShownDataset(ToolOutput):
    """Items of a version of a dataset."""

    name: str
    version: int | None = Field(description="null: it is a file.")
    total: int
    items: list[dict[str, Any]]


async def get_dataset(api: Api, arguments: GetDataset) -> ShownDataset:
    """Show the items of a version.

    Raises:
        ToolRefused: there is no such dataset or file, or it has no version.
    """
    if api.files is not None and arguments.version is None and is_file_name(arguments.name):
        items = await asyncio.to_thread(api.files.items, arguments.name)
        first = arguments.page * arguments.limit
        return ShownDataset(
            name=arguments.name, version=None, total=len(items), items=items[first : first + arguments.limit]
        )
    dataset, version = await version_of(api, arguments.name, arguments.version)
    where = f"{dataset}/versions/{version}/items"
    page = await api.get(where, page=arguments.page, size=arguments.limit)
    return ShownDataset(name=arguments.name, version=version, total=page["totalElements"], items=page["content"])


async def version_of(api: Api, name: str, version: int | None) -> tuple[str, int]:
    """Return the path of a dataset, and the number of the version: by default the latest.

    Raises:
        ToolRefused: there is no such dataset, or it has no version.
    """
    known = {each["name"]: each for each in await api.listed("/api/v1/datasets", _MOST_DATASETS)}
    if name not in known:
        raise ToolRefused(f"there is no dataset {name!r}; list_datasets lists the names")
    number = version or known[name]["latestVersion"]
    if number is None:
        raise ToolRefused(f"the dataset {name!r} has no version yet")
    return f"/api/v1/datasets/{part(known[name]['id'])}", int(number)


class PromotedItem(BaseModel):
    """The source of an item: a trace, a span of it, a session, or an item of a run."""

    trace_id: str | None = None
    span_id: str | None = None
    session_id: str | None = None
    item_id: str | None = Field(default=None, description="Id of an item of a run, from get_failing_queries.")
    expected_output: Any = Field(default=None, description="The correct output.")
    use_output: bool = Field(default=False, description="The output is the expected one.")


class PromoteToDataset(Arguments):
    """The new items, and their dataset."""

    dataset_name: str
    items: list[PromotedItem] = Field(min_length=1, max_length=200)
    description: str = ""


@shows(VersionDocument, "datasetName", "version", "itemCount", "added", "changed")
class MadeVersion(ToolOutput):
    """The new version."""


async def promote_to_dataset(api: Api, arguments: PromoteToDataset) -> MadeVersion:
    """Add items as a new version; existing ones are not added again."""
    items = [
        {
            "traceId": each.trace_id,
            "spanId": each.span_id,
            "sessionId": each.session_id,
            "itemResultId": each.item_id,
            "overriddenExpectedOutput": each.expected_output,
            "useOutput": each.use_output,
        }
        for each in arguments.items
    ]
    body = {"datasetName": arguments.dataset_name, "description": arguments.description, "items": items}
    return MadeVersion(**await api.post("/api/v1/datasets/promote", body))


class Annotate(Arguments):
    """A vote about a trace, or a span of it."""

    trace_id: str
    span_id: str | None = None
    verdict: Literal["CORRECT", "INCORRECT", "UNSURE"]
    note: str | None = Field(default=None, max_length=10_000)
    expected_output: Any = Field(default=None, description="The correct output.")


class Annotated(ToolOutput):
    """The stored vote."""

    annotation: dict[str, Any]


async def annotate(api: Api, arguments: Annotate) -> Annotated:
    """Vote on a trace or span, in the name of the key."""
    body = {"verdict": arguments.verdict, "note": arguments.note, "overriddenExpectedOutput": arguments.expected_output}
    fields = {name: value for name, value in body.items() if value is not None}
    where = f"/api/v1/traces/{part(arguments.trace_id)}/annotation"
    return Annotated(annotation=await api.put(where, fields, spanId=arguments.span_id))


TOOLS = (
    Tool(
        name="list_datasets",
        title="List datasets",
        description="Datasets with their latest version and how many items it has.",
        arguments=ListDatasets,
        answer=ListedDatasets,
        run=list_datasets,
    ),
    Tool(
        name="get_dataset",
        title="Show a dataset",
        description="Items of a version of a dataset: inputs, expected outputs, metadata.",
        arguments=GetDataset,
        answer=ShownDataset,
        run=get_dataset,
    ),
    Tool(
        name="promote_to_dataset",
        title="Add to a dataset",
        description="Adds traces, spans, sessions or items of runs to a dataset, as a new version of it.",
        arguments=PromoteToDataset,
        answer=MadeVersion,
        run=promote_to_dataset,
        permission=Permission.WRITE,
    ),
    Tool(
        name="annotate",
        title="Annotate a trace or span",
        description="Says whether a trace or span is right, with a note; kept with its author.",
        arguments=Annotate,
        answer=Annotated,
        run=annotate,
        permission=Permission.WRITE,
    ),
)
