"""Datasets and experiments for LLM and agent applications, reported to a Tracejury server.

What is named here is imported when it is first used: the plugin for pytest is loaded in every session, and must cost
nothing in those that use none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracejury.builtin import Builtin, ProgramEnded, ProgramNotFound
    from tracejury.client import Client, Refused, Unreachable
    from tracejury.dataset import Dataset, DatasetNotFound, Example
    from tracejury.experiment import Experiment, LostItems
    from tracejury.reported import RunEnded
    from tracejury.reporter import Reporter, replay
    from tracejury.results import ItemResult, Measured, Result
    from tracejury.score import Score, assert_eval, evaluator
    from tracejury.tracing import init

__all__ = [
    "Builtin",
    "Client",
    "Dataset",
    "DatasetNotFound",
    "Example",
    "Experiment",
    "ItemResult",
    "LostItems",
    "Measured",
    "ProgramEnded",
    "ProgramNotFound",
    "Refused",
    "Reporter",
    "Result",
    "RunEnded",
    "Score",
    "Unreachable",
    "assert_eval",
    "evaluator",
    "init",
    "replay",
]

_HOMES: Final = {
    "builtin": ("Builtin", "ProgramEnded", "ProgramNotFound"),
    "client": ("Client", "Refused", "Unreachable"),
    "dataset": ("Dataset", "DatasetNotFound", "Example"),
    "experiment": ("Experiment", "LostItems"),
    "reported": ("RunEnded",),
    "reporter": ("Reporter", "replay"),
    "results": ("ItemResult", "Measured", "Result"),
    "score": ("Score", "assert_eval", "evaluator"),
    "tracing": ("init",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tracejury.{home}"), name)
    raise AttributeError(f"module 'tracejury' has no attribute {name!r}")
