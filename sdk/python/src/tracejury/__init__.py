"""Datasets and experiments for LLM and agent applications, reported to a Tracejury server.

What is named here is imported when it is first used: the plugin for pytest is loaded in every session, and must cost
nothing in those that use none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracejury.client import Client, Refused, Unreachable
    from tracejury.dataset import Dataset, DatasetNotFound, Example
    from tracejury.experiment import Experiment, ItemResult, LostItems, Measured, Result
    from tracejury.reporter import Reporter, replay
    from tracejury.score import Score, assert_eval, evaluator

__all__ = [
    "Client",
    "Dataset",
    "DatasetNotFound",
    "Example",
    "Experiment",
    "ItemResult",
    "LostItems",
    "Measured",
    "Refused",
    "Reporter",
    "Result",
    "Score",
    "Unreachable",
    "assert_eval",
    "evaluator",
    "replay",
]

_HOMES: Final = {
    "client": ("Client", "Refused", "Unreachable"),
    "dataset": ("Dataset", "DatasetNotFound", "Example"),
    "experiment": ("Experiment", "ItemResult", "LostItems", "Measured", "Result"),
    "reporter": ("Reporter", "replay"),
    "score": ("Score", "assert_eval", "evaluator"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tracejury.{home}"), name)
    raise AttributeError(f"module 'tracejury' has no attribute {name!r}")
