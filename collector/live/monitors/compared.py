"""Results that the monitors of a rule need for comparison after its evaluator was changed, and how many are missing."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from collector.live.active import ActiveRule
from collector.live.monitors.streams import compared_releases, results_to_compare_with, state_of
from evaluators.evaluator import without_content
from storage.alerting.monitors import Monitors, StreamKey, StreamRow, is_of_scores
from storage.judging.baselines import ComparedStream

RevisionOf: TypeAlias = Callable[[int], ActiveRule | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A rule and service, and the stream with the results of the rule's current evaluator."""

    latest: StreamRow  # whose evaluator had a result last
    own: StreamRow | None  # None before the first result of the evaluator
    fingerprints: tuple[str, ...]  # of results that are not to be judged again
    minimum: int  # of the rule as it is now

    @property
    def key(self) -> StreamKey:
        """Return the rule and the service."""
        return self.latest.key

    @property
    def results(self) -> int | None:
        """Count the results that the next ones are compared with.

        None if the evaluator replaced no other, or while an episode is open.
        """
        return 0 if self.own is None else results_to_compare_with(self.own, self.minimum)

    @property
    def compared(self) -> ComparedStream:
        """Return the releases that monitors compare, or will with the next result of the evaluator."""
        before, current = compared_releases(state_of(self.own or self.latest).monitor.releases, self.minimum)
        return ComparedStream(
            tenant=self.key.tenant,
            project=self.key.project,
            service=self.key.service,
            before=before,
            current=current,
            fingerprints=self.fingerprints,
        )


def standings(
    monitors: Monitors, revision: RevisionOf, active: ActiveRule, latest: Sequence[StreamRow]
) -> list[Standing]:
    """Return the comparison state of a rule in each service, from the streams that had a result last."""
    alike: dict[StreamKey, list[StreamRow]] = defaultdict(list)
    for row in monitors.streams([row.key for row in latest]):
        if not is_of_scores(row.fingerprint) and judges_alike(row, revision, active):
            alike[row.key].append(row)
    minimum = active.rule.monitoring.settings.minimum
    return [_standing(row, alike[row.key], minimum) for row in latest]


def judges_alike(row: StreamRow, revision: RevisionOf, active: ActiveRule) -> bool:
    """Return True if the rule's evaluator is unchanged since the stream's last result."""
    judged = revision(state_of(row).revision)
    return judged is None or judged.rule.judgement == active.rule.judgement


def _standing(latest: StreamRow, alike: Sequence[StreamRow], minimum: int) -> Standing:
    own = max(alike, key=lambda row: (row.fingerprint == latest.fingerprint, row.updated_us), default=None)
    if own is None:
        return Standing(latest=latest, own=None, fingerprints=(), minimum=minimum)
    fingerprint = own.fingerprint
    kin = [
        row.fingerprint
        for row in alike
        if without_content(row.fingerprint) == fingerprint or row.fingerprint == without_content(fingerprint)
    ]
    return Standing(latest=latest, own=own, fingerprints=(fingerprint, *kin), minimum=minimum)
