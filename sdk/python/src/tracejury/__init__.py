"""Datasets and experiments for LLM and agent applications, reported to a Tracejury server."""

from tracejury.client import Client, Refused, Unreachable
from tracejury.dataset import Dataset, DatasetNotFound, Example
from tracejury.experiment import Experiment, ItemResult, LostItems, Measured, Result
from tracejury.reporter import Reporter, replay
from tracejury.score import Score, evaluator

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
    "evaluator",
    "replay",
]
