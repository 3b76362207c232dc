"""The API's JSON documents as the values that are printed; whatever does not fit them is not our server's answer."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from collector.api.base.times import instant_ns
from collector.cli.answer_view import AnswerView
from collector.units import cost_text, usd_text


def _instant_ns(text: object) -> object:
    """RFC 3339 with any number of digits as nanoseconds since the Unix epoch; anything but text as it is."""
    if not isinstance(text, str):
        return text
    return instant_ns(text)


InstantNs = Annotated[int, BeforeValidator(_instant_ns)]


class ColumnView(AnswerView):
    """One column of an SQL answer."""

    name: str
    type: str


class TableView(AnswerView):
    """An SQL answer."""

    columns: tuple[ColumnView, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool


class SpentView(AnswerView):
    """What was spent today."""

    calls: int = 0
    failed_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced_calls: int = 0

    @property
    def cost(self) -> str:
        """The cost in words, with the part that is unknown."""
        return cost_text(usd_text(self.usd), self.usd, self.unpriced_calls)


class ConnectionView(AnswerView):
    """One line of `connections list`."""

    id: str
    name: str
    model: str
    base_url: str
    protocol: str
    origin: str
    credential: str | None
    credential_ref: str | None = None
    price: dict[str, object] | None = None
    spent_today: SpentView = SpentView()
    problem: str | None = None


class UsageView(AnswerView):
    """What an answer took."""

    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float


class FailureView(AnswerView):
    """Why there was none."""

    kind: str
    message: str


class TrialView(AnswerView):
    """Whether a connection works."""

    ok: bool
    usage: UsageView | None
    failure: FailureView | None


class DecisionsView(AnswerView):
    """How many decisions a rule made."""

    matched: int
    filtered: int
    sampled_out: int = Field(alias="sampled_out")


class EvaluationsView(AnswerView):
    """How many evaluations a rule had."""

    passed: int
    not_passed: int = Field(alias="not_passed")
    failed: int
    skipped: int = 0


class ActivityView(AnswerView):
    """What a rule did of late."""

    decisions: DecisionsView
    evaluations: EvaluationsView
    spent_today: SpentView


class RuleView(AnswerView):
    """One line of `rules list`."""

    id: str
    name: str
    project: str | None
    enabled: bool
    target: str
    evaluator: str
    revision: int
    digest: str
    file: str | None
    problem: str | None
    comparison: str | None
    activity: ActivityView


class FileProblemView(AnswerView):
    """One thing that is wrong with a file of rules."""

    file: str
    line: int | None
    key: str
    message: str


class RulesView(AnswerView):
    """All rules, and what is wrong with files."""

    content: tuple[RuleView, ...]
    problems: tuple[FileProblemView, ...]


class KeyView(AnswerView):
    """An API key; `key` is its text, where it was made just now."""

    id: str
    name: str
    role: str
    tenant_id: str | None
    enabled: bool
    hint: str
    expires_at: str | None
    last_used_at: str | None
    key: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Whether it opens anything, and how long."""
        if not self.enabled:
            return "disabled"
        return f"until {self.expires_at}" if self.expires_at else "enabled"
