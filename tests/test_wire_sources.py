"""The sources of fields in documents of the API: attributes of records, and columns of statements."""

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import get_annotations
from pkgutil import iter_modules
from typing import Final

import pytest

import collector.api.responses
from collector.api.documents.rule_documents import BaselineEstimate
from collector.api.gating import run_diff
from collector.api.responses import (
    agents,
    alerting,
    annotating,
    deletions,
    judging,
    offline,
    reviewing,
    server,
    sessions,
    traces,
)
from collector.api.responses.wire import WireDocument, sources_of
from collector.api.review.review_content import Reviewed
from collector.conversation import SessionTurn
from collector.evaluation.rule_trial import RuleTrial, TargetExample
from collector.experiments.side_by_side import DiffCase, DiffSide, ScoreDifference
from rules.rule import Rule
from rules.settling import Settling
from rules.statistics.agreeing import Agreement
from rules.statistics.calibration import Calibration
from rules.statistics.correcting import MoreLabels
from storage import records
from storage.alerting.alert_mutes import AlertMute
from storage.alerting.outbox import Delivery
from storage.alerting.quality import GroupOfResults
from storage.alerting.webhooks import Webhook
from storage.judging.backfills import Backfill
from storage.judging.judgements import ExternalScore, StoredDecision, StoredEvaluation, TraceResults
from storage.judging.rule_change import StoredRule
from storage.judging.rulebook import Project
from storage.offline.datasets import Dataset, Item, Version, VersionChange
from storage.offline.run_evaluations import Evaluation
from storage.offline.run_sums import Evaluated, RunSums
from storage.offline.runs import Experiment, Run
from storage.query.agents import AgentNumbers, AgentsAt, AgentSums
from storage.query.sessions import SessionPage, SessionSummary
from storage.review.review_queues import ReviewEntry, ReviewQueue
from storage.upkeep.deletions import Deletion
from tests.source_tree import ROOT

ITEMS: Final = ("queries/offline/run_items.sql", "offline/run_items.py")
OF_RUN: Final = (Run, RunSums)

READ_FROM: Final[dict[type[WireDocument], tuple[type | str, ...]]] = {
    agents.AgentDocument: (AgentSums,),
    agents.AgentList: (AgentsAt,),
    agents.AgentNumbersDocument: (AgentNumbers,),
    alerting.DeliveryDocument: (Delivery,),
    alerting.MuteDocument: (AlertMute,),
    alerting.QualityLineDocument: (GroupOfResults,),
    alerting.WebhookDocument: (Webhook,),
    annotating.AgreementDocument: (Agreement,),
    annotating.JudgeCalibration: (Calibration,),
    annotating.MoreLabelsDocument: (MoreLabels,),
    deletions.DeletionDocument: (Deletion,),
    judging.ActiveRuleDocument: (StoredRule, Rule),
    judging.BackfillDocument: (Backfill,),
    judging.BaselineEstimateDocument: (BaselineEstimate,),
    judging.JobDocument: ("queries/judging/page_of_jobs.sql",),
    judging.ProjectDocument: (Project,),
    judging.RuleDocument: (StoredRule, Rule),
    judging.RuleTrialDocument: (RuleTrial,),
    judging.TrialExample: (TargetExample,),
    offline.ChangedItem: (VersionChange,),
    offline.DatasetDetail: (Dataset,),
    offline.DatasetDocument: (Dataset,),
    offline.EvaluatorSummary: (Evaluated,),
    offline.ExperimentDocument: (Experiment,),
    offline.ImportedVersion: (Version, Dataset),
    offline.ItemDocument: (Item,),
    offline.LatestRun: OF_RUN,
    offline.PinnedRun: (Run,),
    offline.RunDetail: OF_RUN,
    offline.RunDocument: OF_RUN,
    offline.RunEvaluationDocument: (Evaluation,),
    offline.RunItemDocument: ITEMS,
    offline.RunScore: ITEMS,
    offline.RunWithEvaluators: OF_RUN,
    offline.TrendRun: OF_RUN,
    offline.UndecidedItem: (*ITEMS, "queries/offline/undecided_run_items.sql"),
    offline.VersionDocument: (Version, Dataset),
    run_diff.DiffCaseDocument: (DiffCase,),
    run_diff.DiffScore: (ScoreDifference,),
    run_diff.DiffSideDocument: (DiffSide, *ITEMS),
    reviewing.ReviewEntryDetail: (ReviewEntry,),
    reviewing.ReviewEntryDocument: (ReviewEntry,),
    reviewing.ReviewQueueDocument: (ReviewQueue,),
    reviewing.ReviewedContent: (Reviewed,),
    server.SettlingDocument: (Settling,),
    sessions.SessionDocument: (SessionSummary, TraceResults),
    sessions.SessionList: (SessionPage,),
    sessions.SessionSummaryDocument: (SessionSummary,),
    sessions.TurnDocument: (records.TraceSummary, SessionTurn),
    traces.DecisionDocument: (StoredDecision,),
    traces.EvaluationDocument: (StoredEvaluation,),
    traces.ExternalScoreDocument: (ExternalScore,),
    traces.LogDocument: (records.LogRecord,),
    traces.SpanDocument: (records.Span, records.SpanReading),
    traces.SpanEventDocument: (records.SpanEvent,),
    traces.ToolCallDocument: (records.TraceToolCall,),
    traces.TraceDocument: (records.TraceSummary, records.TraceReading),
    traces.TraceSummaryDocument: (records.TraceSummary,),
}
"""The records and statements that each document with a field of another name is made of."""


def _documents(kind: type[WireDocument] = WireDocument) -> Iterator[type[WireDocument]]:
    for module in iter_modules(collector.api.responses.__path__):
        import_module(f"collector.api.responses.{module.name}")
    for each in kind.__subclasses__():
        yield each
        yield from _documents(each)


def _renamed(document: type[WireDocument]) -> set[str]:
    return {source for name, source, _ in sources_of(document) if source not in {"", name}}


def _names(source: type | str) -> set[str]:
    if isinstance(source, str):  # rows have the columns that this file names
        return set(re.findall(r"\w+", (ROOT / "storage" / source).read_text(encoding="utf-8")))
    return set(dir(source)) | {name for each in source.__mro__ for name in get_annotations(each)}


def test_each_document_with_fields_of_other_names_is_listed() -> None:
    """What the documents are made of is known for each, so that no rename goes unnoticed."""
    renaming = {each.__name__ for each in _documents() if _renamed(each)}
    assert {name for name in renaming if not name.startswith("_")} == {each.__name__ for each in READ_FROM}


@pytest.mark.parametrize("document", READ_FROM, ids=lambda document: document.__name__)
def test_fields_of_other_names_are_attributes_of_the_records(document: type[WireDocument]) -> None:
    """A field that names its source is made of an attribute or a column that exists."""
    names = set().union(*map(_names, READ_FROM[document]))
    assert _renamed(document) - names == set()
