"""Interface of judges: one question, the requested fields, one parsed answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from evaluators.errors import BadReply, EvaluationError
from evaluators.outcome import Usage
from storage.records import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """A message of a prompt to a judge."""

    role: Literal["system", "user"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The verdict in a judge's reply."""

    fields: Mapping[str, JsonValue]
    usage: Usage


REPLY_GRAMMAR: Final = 4
"""The version of the parsing of replies, which is part of the fingerprint of each evaluator with a judge."""


class UnusableAnswer(BadReply):
    """A judge's reply that is not a verdict, or only a part of one; it cost as much as a good one."""

    def __init__(self, message: str, usage: Usage, kind: Literal["bad_reply", "truncated"] = "bad_reply") -> None:
        super().__init__(message)
        self.kind = kind
        self.usage = usage


class Judge(Protocol):
    """A model that judges."""

    @property
    def model(self) -> str:
        """Return the model that is asked for, which is part of an evaluator's fingerprint."""

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """Return the other parameters of a request that affect its answers, such as the temperature."""

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:
        """Ask once. `schemas` has a JSON Schema for each field of the answer; a field with a `default` may be missing.

        Raises:
            EvaluationError: there is no answer, or none with the requested fields; its kind says which.
        """


class CostMeter:
    """A judge that counts its usage. One is made for each evaluation."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.usage: Usage | None = None

    @property
    def model(self) -> str:
        """Return the model that is asked for."""
        return self._judge.model

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """Return the other parameters of a request that affect its answers."""
        return self._judge.parameters

    async def __call__(self, messages: Sequence[PromptMessage], schemas: Mapping[str, JsonValue]) -> Reply:
        """Ask, and count the usage."""
        try:
            reply = await self._judge(messages, schemas)
        except EvaluationError as broken:
            if isinstance(broken.usage, Usage):
                self._count(broken.usage)
            raise
        self._count(reply.usage)
        return reply

    def _count(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage
