"""The cases of an experiment, each with the id that it has in a dataset."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from collector.datasets.files import BadFile, Format, read_items
from collector.datasets.item import BadItem, ItemMaker, ItemText
from collector.datasets.schema import ItemSchemas
from collector.plan_file import BadPlan

_FORMS: dict[str, Format] = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def read_cases(file: BinaryIO, form: Format) -> Sequence[ItemText]:
    """The cases in a file in their order; what has no id is called after its inputs, as a dataset does.

    Raises:
        BadPlan: something in it is wrong; the message says in which line or row.
    """
    maker, found = ItemMaker(schemas=ItemSchemas()), []
    try:
        for place, item in read_items(file, form):
            try:
                found.append(replace(item, item_id=maker.make(item).item_id))
            except BadItem as error:
                raise BadPlan(f"{place}: {error}") from None
    except BadFile as error:
        raise BadPlan(str(error)) from None
    return found


def form_of(path: Path) -> Format:
    """The format of a file by its name.

    Raises:
        BadPlan: the name says none.
    """
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise BadPlan(f"dataset: {path.name} ends in none of {', '.join(_FORMS)}")
    return form
