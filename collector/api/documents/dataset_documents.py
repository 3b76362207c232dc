"""JSON documents of datasets, their versions and their items."""

import json
from collections.abc import Mapping
from typing import Any

from collector.api.base.times import time_text
from storage.offline.datasets import Dataset, Item, Version, VersionChange

Document = dict[str, object]


def dataset_document(dataset: Dataset) -> Document:
    """A dataset and its latest version; null where there is none."""
    return {
        "id": dataset.dataset_id,
        "tenant": dataset.tenant,
        "name": dataset.name,
        "description": dataset.description,
        "tags": list(dataset.tags),
        "inputSchema": _parsed(dataset.input_schema),
        "expectedOutputSchema": _parsed(dataset.expected_schema),
        "latestVersion": dataset.latest_version or None,
        "latestItemCount": dataset.latest_item_count,
        "version": dataset.version,
        "createdAt": time_text(dataset.created_at_ns),
        "updatedAt": time_text(dataset.updated_at_ns),
    }


def version_document(dataset: Dataset, version: Version) -> Document:
    """A version, and how it differs from the one before it."""
    return {
        "id": f"{dataset.dataset_id}@{version.version}",
        "tenant": dataset.tenant,
        "datasetName": dataset.name,
        "version": version.version,
        "description": version.description,
        "itemCount": version.item_count,
        "added": version.added,
        "removed": version.removed,
        "changed": version.changed,
        "createdAt": time_text(version.created_at_ns),
        "createdBy": version.created_by,
    }


def item_document(item: Item) -> Document:
    """An item of a version."""
    return {
        "id": item.item_id,
        "ordinal": item.ordinal,
        "inputs": json.loads(item.inputs),
        "expectedOutputs": json.loads(item.expected_outputs),
        "metadata": json.loads(item.metadata),
        "source": _parsed(item.source),
        "digest": item.digest,
    }


def change_document(change: VersionChange) -> Document:
    """An item that differs between two versions; null is what one of them does not have."""
    return {
        "status": change.status,
        "id": change.item_id,
        "before": _side(change.inputs_before, change.expected_before, change.metadata_before),
        "after": _side(change.inputs_after, change.expected_after, change.metadata_after),
    }


def _side(inputs: str | None, expected: str | None, metadata: str | None) -> Mapping[str, Any] | None:
    if inputs is None:
        return None
    return {"inputs": _parsed(inputs), "expectedOutputs": _parsed(expected), "metadata": _parsed(metadata)}


def _parsed(text: str | None) -> Any:  # noqa: ANN401 - JSON
    return None if text is None else json.loads(text)
