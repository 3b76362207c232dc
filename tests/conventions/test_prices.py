"""Costs of model calls by list prices, for spans without a cost."""

import pytest

from collector.conventions.own_keys import NO_KEYS, OwnKeys
from collector.conventions.prices import COMPUTED, BadPrices, price_table
from collector.conventions.trace import read_trace
from collector.reading.spans import edition_of
from storage.records import SpanReading
from tests.conventions.making import Attributes, a_span, read

LISTED = OwnKeys(prices=price_table({}))
USED = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 100_000}


def priced(
    model: str, provider: str | None = None, own: OwnKeys = LISTED, more: Attributes | None = None
) -> SpanReading:
    """Read a model call with a million input tokens and a tenth of that as output."""
    sold = {} if provider is None else {"gen_ai.provider.name": provider}
    return read({**USED, "gen_ai.request.model": model, **sold, **(more or {})}, own=own)


@pytest.mark.parametrize(
    "model, provider",
    [
        ("claude-sonnet-4-5", None),
        ("claude-sonnet-4-5-20250929", "anthropic"),
        ("anthropic/claude-sonnet-4.5", "openrouter"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws.bedrock"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "AWS"),
        ("claude-sonnet-4-5@20250929", "gcp.vertex_ai"),
        ("Claude-Sonnet-4-5-latest", "strands-agents"),
    ],
)
def test_one_model_has_one_price_however_it_is_spelled(model: str, provider: str | None) -> None:
    """Providers put regions, makers, dates and versions around its name."""
    assert priced(model, provider).cost_usd == pytest.approx(3 + 1.5)


@pytest.mark.parametrize(
    "model, provider, cost",
    [
        ("gpt-4o-mini-2024-07-18", "openai", 0.15 + 0.06),
        ("openai/gpt-4o-mini", "azure.ai.openai", 0.15 + 0.06),
        ("openai:gpt-4o-mini", "pydantic-ai", 0.15 + 0.06),
        ("models/gemini-2.5-flash", "google_genai", 0.3 + 0.25),
        ("gemini-2.5-flash-preview-05-20", "google.generative-ai", 0.3 + 0.25),
        ("gemini-2.0-flash-001", "vertexai", 0.1 + 0.04),
        ("mistral-small-latest", "mistral_ai", 0.1 + 0.03),
        ("grok-4", "x_ai", 3 + 1.5),
        ("gpt-4o-mini", "gcp.vertex.agent", 0.15 + 0.06),
        ("gpt-4o-2024-05-13", "openai", 5 + 1.5),
        ("azure/eu/gpt-4o-2024-05-13", "azure", 5 + 1.5),
        ("gpt-4o-2024-11-20", "openai", 2.5 + 1),
        ("gpt-35-turbo", "az.ai.openai", 0.5 + 0.15),
        ("gpt-35-turbo-1106", "azure.ai.openai", 1 + 0.2),
        ("gpt-4-0125-preview", "openai", 10 + 3),
        ("gpt-4-0613", "openai", 30 + 6),
        ("claude-sonnet-4-5[1m]", "anthropic", 3 + 1.5),
        ("claude-sonnet-4-5-20250929[1m]", "anthropic", 3 + 1.5),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws.bedrock", 3 + 1.5),
        ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", 3 + 1.5),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0", "aws", 1 + 0.5),
        ("claude-3-5-sonnet-v2@20241022", "gcp.vertex_ai", 3 + 1.5),
        ("claude-sonnet-4-5@default", "gcp.vertex_ai", 3 + 1.5),
        ("projects/p/locations/eu/publishers/google/models/gemini-2.5-flash", "gcp.vertex_ai", 0.3 + 0.25),
        ("anthropic/claude-sonnet-4.5:thinking", "openrouter", 3 + 1.5),
        ("deepseek/deepseek-chat:free", "openrouter", None),
        ("mistral.mistral-large-2407-v1:0", "mistral", 2 + 0.6),
        ("mistral-large-2402", "mistral", 4 + 1.2),
        ("grok-4-0709", "xai", 3 + 1.5),
        ("command-r-08-2024", "cohere", 0.15 + 0.06),
        ("gpt-4o-mini", "ollama", None),
        ("gpt-4o-mini", "anthropic", None),
        ("ft:gpt-4o-mini-2024-07-18:shop::abc", "openai", None),
        ("gpt-4o-minimal", "openai", None),
        ("my-deployment", "azure", None),
    ],
)
def test_a_price_holds_for_those_who_sell_at_it(model: str, provider: str, cost: float | None) -> None:
    """A framework can have any model behind it; an unknown model, or one of another provider, has no price."""
    assert priced(model, provider).cost_usd == (None if cost is None else pytest.approx(cost))


def test_an_own_price_of_a_model_is_that_of_its_releases() -> None:
    """The operator's price of a model wins over the listed one of a release of it."""
    own = OwnKeys(prices=price_table({"gpt-4o": {"input": 7, "output": 9}}))
    assert priced("gpt-4o-2024-05-13", own=own).cost_usd == pytest.approx(7 + 0.9)


def test_cached_and_reasoning_tokens_have_prices_of_their_own() -> None:
    """They are parts of the input and the output; cached tokens beyond the input are added to it."""
    own = OwnKeys(prices=price_table({"m": {"input": 10, "cached": 1, "output": 20, "reasoning": 50}}))
    cached = {"gen_ai.usage.cache_read.input_tokens": 400_000, "gen_ai.usage.reasoning.output_tokens": 60_000}
    assert priced("m", own=own, more=cached).cost_usd == pytest.approx(6 + 0.4 + 0.8 + 3)
    assert priced("gpt-5", more=cached).cost_usd == pytest.approx(0.6 * 1.25 + 0.4 * 0.125 + 1)
    too_many = {"gen_ai.usage.cache_read.input_tokens": 5_000_000}
    assert priced("m", own=own, more=too_many).cost_usd == pytest.approx(10 + 5 + 2)


def test_a_cost_that_is_told_wins() -> None:
    """A recorded cost of a span is kept, and no cost is computed in a trace with one."""
    attributes = {"operation.cost": 0.5}
    assert priced("gpt-5", more=attributes).cost_usd == 0.5
    spans = [a_span({**USED, "gen_ai.request.model": "gpt-5", **more}) for more in (attributes, {})]
    assert read_trace(spans, (), LISTED).cost_usd == 0.5
    assert read_trace(spans[1:], (), LISTED).cost_usd == pytest.approx(2.25)


def test_a_cost_says_by_which_prices_it_was_computed() -> None:
    """The date of the table, or the settings, are named beside it, so that it is not taken for a reported cost."""
    source = priced("gpt-5").sources["cost_usd"]
    assert source.startswith(f"{COMPUTED}20")
    mine = OwnKeys(prices=price_table({"openai/gpt-5": {"input": 1}}))
    assert priced("gpt-5", "openai", mine).cost_usd == 1
    assert priced("gpt-5", "openai", mine).sources["cost_usd"] == f"{COMPUTED}the settings"
    assert priced("gpt-5", "azure", mine).sources["cost_usd"] == source


def test_only_calls_of_models_whose_tokens_are_told_have_a_price() -> None:
    """Agents repeat the tokens of their models, and half of a usage is not a cost; an embedding answers no tokens."""
    assert priced("gpt-5", more={"gen_ai.operation.name": "invoke_agent"}).cost_usd is None
    assert priced("gpt-5", more={"gen_ai.usage.output_tokens": None}).cost_usd is None
    embedding = {"gen_ai.operation.name": "embeddings", "gen_ai.usage.output_tokens": None}
    assert priced("text-embedding-3-small", more=embedding).cost_usd == pytest.approx(0.02)


def test_whoever_changes_prices_has_spans_read_again() -> None:
    """Prices belong to the edition of a reading; without any, a cost is what spans tell."""
    tables = [NO_KEYS, LISTED, OwnKeys(prices=price_table({"gpt-5": {"input": 1}}))]
    assert len({edition_of(own) for own in tables}) == len(tables)
    assert priced("gpt-5", own=OwnKeys(prices=price_table(None))).cost_usd is None


@pytest.mark.parametrize("price", [{}, {"output": 1}, {"input": -1}, {"input": 1, "inptu": 2}, {"input": float("nan")}])
def test_a_price_that_cannot_be_is_refused_by_name(price: dict[str, float]) -> None:
    """The error names the mistyped price."""
    with pytest.raises(BadPrices, match="gpt-5"):
        price_table({"gpt-5": price})
