"""Evidence, while an episode lasts, that the mean is much lower than reported when it began.

The reported mean is known before the first watched result, so that no second sample is needed: the
claim is that the mean is not below a level. A bet against it stakes a share on each score, as in `wealth`; after n
results the sum over all moments at which the fall may have begun is n at most, on average, while the claim is true (a
Shiryaev-Roberts e-detector: Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change
detection", New England J. Statist. Data Sci. 2 (2024), section 2). For a level that is known that sum needs no memory:
R becomes (R + 1) times what the bet grows by.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from rules.statistics.sample import ATOMS, NOTHING, UNIT, Sample, WeightTally
from rules.statistics.settings import MonitorSettings
from rules.statistics.wealth import CANDIDATE

_USED: Final = CANDIDATE.shares > 0
_SHARES: Final = CANDIDATE.shares[_USED]
_PARTS: Final = np.exp(CANDIDATE.log_parts[_USED])
_LEADER: Final = 0.12
"""The share of the bet that dates the worsening: it began after this bet was last worth no more than its start."""

_HIGHEST: Final = 1.0 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseningState:
    """State of a watch for worsening."""

    told: float  # the mean that was reported last; stored states have this name
    results: int = 0  # since then
    sums: tuple[float, ...] = ()  # by share
    lead: float = 0.0  # the log of what the leading bet has grown to
    after: int = 0  # the number of the last result before it began to grow
    since: Sample = NOTHING  # the results after that one


class Worsening:
    """A watch for a mean below the reported one by more than the margin and at least half of the reported drop.

    While the mean is not that low, a false finding within n results has a probability of at most n / threshold.
    """

    __slots__ = ("_gains", "_lead", "_losses", "_results", "_settings", "_since", "_sums", "after", "level", "reported")

    def __init__(self, state: WorseningState, drop: float, settings: MonitorSettings) -> None:
        """`drop` is how much lower the reported mean is than its baseline."""
        self.reported = state.told
        self.level = state.told - max(settings.margin, drop / 2)
        self._settings = settings
        self._results, self._lead, self.after = state.results, state.lead, state.after
        self._sums = np.array(state.sums or [0.0] * len(_SHARES))
        self._since = WeightTally(state.since)
        rest = 1.0 - min(max(self.level, 0.0), _HIGHEST)
        self._losses = 1.0 - _SHARES
        self._gains = _SHARES / rest

    @property
    def state(self) -> WorseningState:
        """Return a snapshot from which to continue."""
        return WorseningState(
            told=self.reported,
            results=self._results,
            sums=tuple(self._sums.tolist()),
            lead=self._lead,
            after=self.after,
            since=self._since.sample(),
        )

    @property
    def since(self) -> Sample:
        """Return the results since the most likely beginning of the worsening."""
        return self._since.sample()

    @property
    def log_evidence(self) -> float:
        """Return the log of the evidence."""
        return math.log(max(float(_PARTS @ self._sums), 1e-300))

    def add(self, number: int, point: int, above: int) -> bool:
        """Add a result, as `split` returns it; return True if the mean is worse."""
        if self.level <= 0.0:
            return False
        if not self._results:
            self.after = number - 1
        self._results += 1
        lack = 1.0 - (point + above / UNIT) / (ATOMS - 1)
        self._sums = (self._sums + 1.0) * (self._losses + self._gains * lack)
        self._lead += math.log(1.0 - _LEADER + _LEADER / (1.0 - min(self.level, _HIGHEST)) * lack)
        self._since.add(point, above)
        if self._lead <= 0.0:
            self._lead, self.after, self._since = 0.0, number, WeightTally()
        enough = min(self._results, self._since.count) >= self._settings.minimum
        return enough and self.log_evidence >= self._settings.log_escalation_threshold
