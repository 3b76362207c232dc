"""Datasets and experiments for LLM and agent applications, reported to a Tracejury server.

The names here are imported at their first use: the plugin for pytest is loaded in every session, and must cost
nothing in those that use none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracejury import personas
    from tracejury.agent_trace import AgentTrace, ToolDefinition
    from tracejury.builtin import Builtin, ProgramEnded, ProgramNotFound
    from tracejury.chat_model import ChatCompletions, NoReply, UserTool
    from tracejury.client import Client, Refused, Unreachable
    from tracejury.conversation import ConversationTrajectory, Message, ToolCall
    from tracejury.dataset import Dataset, DatasetNotFound, Example
    from tracejury.experiment import Experiment, LostItems
    from tracejury.gate import assert_no_regression
    from tracejury.goldens import write_goldens
    from tracejury.journal import JournalInUse
    from tracejury.marking import current_session
    from tracejury.models import as_judge, rag_task, simple_task
    from tracejury.reported import RunEnded
    from tracejury.reporter import Reporter, replay
    from tracejury.results import ItemResult, Measured, Result, TaskFailed
    from tracejury.scenario import Scenario, dataset_of, read_scenarios
    from tracejury.score import Score, assert_eval, evaluator
    from tracejury.simulated_user import LLMSimulatedUser, ScriptedUser
    from tracejury.simulation import Simulation, SimulationResult, simulated_task
    from tracejury.simulator import ConversationSimulator, SimulatedConversation, TargetReply
    from tracejury.spending import BudgetSpent, SimulationBudget
    from tracejury.targets import AnswerPlaces, CommandTarget, HttpTarget
    from tracejury.tracing import init

__all__ = [
    "AgentTrace",
    "AnswerPlaces",
    "BudgetSpent",
    "Builtin",
    "ChatCompletions",
    "Client",
    "CommandTarget",
    "ConversationSimulator",
    "ConversationTrajectory",
    "Dataset",
    "DatasetNotFound",
    "Example",
    "Experiment",
    "HttpTarget",
    "ItemResult",
    "JournalInUse",
    "LLMSimulatedUser",
    "LostItems",
    "Measured",
    "Message",
    "NoReply",
    "ProgramEnded",
    "ProgramNotFound",
    "Refused",
    "Reporter",
    "Result",
    "RunEnded",
    "Scenario",
    "Score",
    "ScriptedUser",
    "SimulatedConversation",
    "Simulation",
    "SimulationBudget",
    "SimulationResult",
    "TargetReply",
    "TaskFailed",
    "ToolCall",
    "ToolDefinition",
    "Unreachable",
    "UserTool",
    "as_judge",
    "assert_eval",
    "assert_no_regression",
    "current_session",
    "dataset_of",
    "evaluator",
    "init",
    "personas",
    "rag_task",
    "read_scenarios",
    "replay",
    "simple_task",
    "simulated_task",
    "write_goldens",
]

_HOMES: Final = {
    "agent_trace": (
        "AgentTrace",
        "ToolDefinition",
    ),
    "builtin": (
        "Builtin",
        "ProgramEnded",
        "ProgramNotFound",
    ),
    "chat_model": (
        "ChatCompletions",
        "NoReply",
        "UserTool",
    ),
    "client": (
        "Client",
        "Refused",
        "Unreachable",
    ),
    "conversation": (
        "ConversationTrajectory",
        "Message",
        "ToolCall",
    ),
    "dataset": (
        "Dataset",
        "DatasetNotFound",
        "Example",
    ),
    "experiment": (
        "Experiment",
        "LostItems",
    ),
    "gate": ("assert_no_regression",),
    "goldens": ("write_goldens",),
    "journal": ("JournalInUse",),
    "marking": ("current_session",),
    "models": (
        "as_judge",
        "rag_task",
        "simple_task",
    ),
    "reported": ("RunEnded",),
    "reporter": (
        "Reporter",
        "replay",
    ),
    "results": (
        "ItemResult",
        "Measured",
        "Result",
        "TaskFailed",
    ),
    "scenario": (
        "Scenario",
        "dataset_of",
        "read_scenarios",
    ),
    "score": (
        "Score",
        "assert_eval",
        "evaluator",
    ),
    "simulated_user": (
        "LLMSimulatedUser",
        "ScriptedUser",
    ),
    "simulation": (
        "Simulation",
        "SimulationResult",
        "simulated_task",
    ),
    "simulator": (
        "ConversationSimulator",
        "SimulatedConversation",
        "TargetReply",
    ),
    "spending": (
        "BudgetSpent",
        "SimulationBudget",
    ),
    "targets": (
        "AnswerPlaces",
        "CommandTarget",
        "HttpTarget",
    ),
    "tracing": ("init",),
}


def __getattr__(name: str) -> Any:
    if name == "personas":
        return import_module("tracejury.personas")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tracejury.{home}"), name)
    raise AttributeError(f"module 'tracejury' has no attribute {name!r}")
