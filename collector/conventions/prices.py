"""Cost of model calls by list prices, if their spans have none: by columns, and of one span.

Only spans of models and embeddings have a price: agents and wrappers repeat their tokens.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.records import SpanReading

COMPUTED: Final = "prices of "
"""Beginning of the source of a computed cost; the date of the table, or the settings, follow."""

_OF_SETTINGS: Final = f"{COMPUTED}the settings"
_PER: Final = 1e6  # tokens
_HIGHEST: Final = 1e6  # USD for them, which keeps costs finite
_LONGEST: Final = 200  # characters of a model's name that are read; a guess
_SELLER: Final = re.compile(r"[^a-z0-9]+")
_AI: Final = re.compile(r"(?<=[a-z]{3})_?ai$")
_VENDORS: Final = r"(?:anthropic|amazon|meta|mistral|cohere|deepseek|openai)\."
_BEFORE: Final = re.compile(rf"^(?:(?:us|eu|apac|au|jp|ca|global|us-gov)\.)?{_VENDORS}|^(?!ft:)[a-z][a-z_-]*:(?=[a-z])")
_AFTER: Final = re.compile(
    r"(?:[@-]20\d\d-?\d\d-?\d\d|-v\d+(?::\d+)?|-latest|-(?:preview|exp)(?:-\d\d-(?:\d\d|20\d\d))?|-0\d\d"
    r"|-\d\d-20\d\d|-(?:[01]\d[0-3]\d|2[3-9][01]\d)|@default|\[1m\]|:(?:beta|thinking))$"
)
_AZURE: Final = re.compile(r"^gpt-35-")  # its names of models have no dots


class BadPrices(ValueError):
    """Prices that cannot be used; the message names the model."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Prices of a million tokens by sort, in US dollars."""

    input: float
    cached: float  # of the input, read from a cache
    output: float
    reasoning: float  # of the output
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices of models by name, and for each provider (seller) the makers whose models it sells at these prices."""

    by_operator: Mapping[str, ModelPrice] = field(default_factory=dict)  # set by an operator, for any seller
    listed: Mapping[str, tuple[str, ModelPrice]] = field(default_factory=dict)  # the model's maker, and its price
    sellers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, float]] | None = None  # the operator's prices, as passed to `price_table`
    digest: str = ""  # identifies the table

    def price_of(self, model: str, provider: str | None) -> ModelPrice | None:
        """Return the price of a model, for any spelling of its name; None if it is unknown for the provider."""
        seller = _SELLER.sub(" ", (provider or "").lower()).strip()
        names = spellings(model)
        for name in names:
            own = self.by_operator.get(f"{seller}/{name}") or self.by_operator.get(name)
            if own is not None:
                return own
        for name in names:
            maker, price = self.listed.get(name, ("", None))
            if price is not None:
                return price if self._sells(seller, maker) else None
        return None

    def _sells(self, seller: str, maker: str) -> bool:
        words = _words(seller)
        known = [] if "agent" in words else [self.sellers[word] for word in words if word in self.sellers]
        return not known or any(maker in makers for makers in known)


NO_PRICES: Final = PriceTable()


def _words(seller: str) -> list[str]:
    words = seller.split()
    return [*words, *[_AI.sub("", word) for word in words], seller.replace(" ", "")]


def spellings(model: str) -> tuple[str, ...]:
    """Return a model's normalized name without its host, then shorter ones without each trailing date or version."""
    name = model[:_LONGEST].strip().lower().rpartition("/")[2]
    while (shorter := _BEFORE.sub("", name)) != name:
        name = shorter
    names = [_AZURE.sub("gpt-3.5-", name)]
    while (shorter := _AFTER.sub("", names[-1])) != names[-1]:
        names.append(shorter)
    return tuple(name.replace(".", "-") for name in names)


def price_table(settings: Mapping[str, Mapping[str, float]] | None) -> PriceTable:
    """Return the shipped prices, overridden by those of an operator; None: no prices at all.

    Raises:
        BadPrices: an operator's prices cannot be used.
    """
    if settings is None:
        return NO_PRICES
    shipped = _shipped()
    own = {_given_name(name): _price(name, rates, _OF_SETTINGS) for name, rates in settings.items()}
    digest = hashlib.sha256((shipped.digest + json.dumps(settings, sort_keys=True)).encode()).hexdigest()
    return replace(shipped, by_operator=own, settings=settings, digest=digest)


def _given_name(name: str) -> str:
    seller, _, model = name.strip().lower().rpartition("/")
    model = model.replace(".", "-")
    return f"{_SELLER.sub(' ', seller).strip()}/{model}" if seller else model


@cache
def _shipped() -> PriceTable:
    text = resources.files("collector").joinpath("conventions", "prices.toml").read_text(encoding="utf-8")
    document: dict[str, Any] = tomllib.loads(text)
    source = f"{COMPUTED}{document['date']}"
    listed = {
        name.replace(".", "-"): (maker, _price(name, price, source))
        for maker, models in document["models"].items()
        for name, price in models.items()
    }
    sellers = {name: tuple(makers) for name, makers in document["providers"].items()}
    return PriceTable(listed=listed, sellers=sellers, digest=hashlib.sha256(text.encode()).hexdigest())


def _price(name: str, rates: Mapping[str, float], source: str) -> ModelPrice:
    unknown = rates.keys() - {"input", "cached", "output", "reasoning"}
    if unknown or "input" not in rates:
        raise BadPrices(f"{name!r} needs input, and may have cached, output and reasoning, in USD per million tokens")
    if not all(0 <= amount <= _HIGHEST for amount in rates.values()):
        raise BadPrices(f"{name!r}: a price is a number from 0 to {_HIGHEST:,.0f}")
    output = rates.get("output", 0.0)
    return ModelPrice(
        input=rates["input"],
        cached=rates.get("cached", rates["input"]),
        output=output,
        reasoning=rates.get("reasoning", output),
        source=source,
    )


def with_cost(reading: SpanReading, prices: PriceTable) -> SpanReading:
    """Return a reading with the cost of the call by the table, if its span has none."""
    if reading.cost_usd is not None or reading.model is None or reading.span_type not in ("llm", "embedding"):
        return reading
    price = prices.price_of(reading.model, reading.provider)
    if price is None or reading.input_tokens is None or (reading.output_tokens is None and reading.span_type == "llm"):
        return reading
    count = reading.input_tokens, reading.cached_tokens, reading.output_tokens, reading.reasoning_tokens
    prompt, cached, answered, reasoned = (amount or 0 for amount in count)
    cached, reasoned = min(cached, prompt), min(reasoned, answered)
    cost = (prompt - cached) * price.input + cached * price.cached
    cost += (answered - reasoned) * price.output + reasoned * price.reasoning
    return replace(reading, cost_usd=cost / _PER, sources={**reading.sources, "cost_usd": price.source})


def with_costs(meanings: pa.Table, prices: PriceTable) -> pa.Table:
    """Return the readings with the cost of model calls by the table, if their spans have none."""
    columns = {name: meanings.column(name).combine_chunks() for name in _COLUMNS}
    is_model = pc.equal(columns["span_type"], "llm")
    is_counted = pc.and_(
        columns["input_tokens"].is_valid(),
        pc.or_(pc.invert(is_model), columns["output_tokens"].is_valid()),
    )
    is_open = pc.and_(pc.or_(is_model, pc.equal(columns["span_type"], "embedding")), columns["cost_usd"].is_null())
    is_open = pc.and_(pc.and_(is_open, is_counted), columns["model"].is_valid()).fill_null(fill_value=False)
    rows = np.flatnonzero(is_open.to_numpy(zero_copy_only=False))
    if not len(rows) or not (prices.listed or prices.by_operator):
        return meanings
    sold = [columns[name].take(pa.array(rows)).dictionary_encode() for name in ("model", "provider")]
    models, providers = (column.dictionary.to_pylist() for column in sold)
    codes = [column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for column in sold]
    pairs, which = np.unique(codes[0] * (len(providers) + 1) + codes[1] + 1, return_inverse=True)
    named = [divmod(pair, len(providers) + 1) for pair in pairs.tolist()]
    priced = [prices.price_of(models[model], providers[sold_by - 1] if sold_by else None) for model, sold_by in named]
    rates = np.array([_rates(price) for price in priced])[which]
    is_priced = ~np.isnan(rates[:, 0])
    rows, rates, which = rows[is_priced], rates[is_priced], which[is_priced]
    prompt, cached, answered, reasoned = (
        columns[name].take(pa.array(rows)).fill_null(0).to_numpy(zero_copy_only=False) for name in _COUNTS
    )
    cached, reasoned = np.minimum(cached, prompt), np.minimum(reasoned, answered)
    amounts = np.stack([prompt - cached, cached, answered - reasoned, reasoned], axis=1)
    costs = (amounts[:, 0] * rates[:, 0] + amounts[:, 1] * rates[:, 1]) + (
        amounts[:, 2] * rates[:, 2] + amounts[:, 3] * rates[:, 3]
    )
    sources = pa.array([price.source if price else None for price in priced], pa.string()).take(pa.array(which))
    meanings = _over(meanings, "cost_usd", rows, pa.array(costs / _PER))
    return _over(meanings, "cost_source", rows, sources)


_COUNTS: Final = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_COLUMNS: Final = ("span_type", "model", "provider", "cost_usd", *_COUNTS)


def _rates(price: ModelPrice | None) -> tuple[float, float, float, float]:
    if price is None:
        return (float("nan"),) * 4
    return price.input, price.cached, price.output, price.reasoning


def _over(meanings: pa.Table, name: str, rows: np.ndarray[Any, Any], values: pa.Array) -> pa.Table:
    mask = np.zeros(meanings.num_rows, dtype=np.bool_)
    mask[rows] = True
    at = meanings.schema.get_field_index(name)
    column = pc.replace_with_mask(meanings.column(name).combine_chunks(), pa.array(mask), values)
    return meanings.set_column(at, meanings.schema.field(at), column)
