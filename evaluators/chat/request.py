"""Body of a request to a model: the parameters beside the prompt, and an estimate of its usage."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evaluators.chat.connection import ModelConnection, Price
from evaluators.chat.images import TOKENS_OF_PICTURE, Image
from evaluators.chat.parameters import EFFORT, TEMPERATURE
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS, Estimate
from evaluators.chat.wire import WIRES


def with_parameters(
    request: dict[str, Any], connection: ModelConnection, unsupported: Collection[str] = ()
) -> dict[str, Any]:
    """Add limit of length, temperature and effort to the request, unless the model refused them; return the request."""
    wire, most = WIRES[connection.protocol], connection.max_output_tokens
    if most is None and wire.needs_most_tokens:
        most = ASSUMED_OUTPUT_TOKENS
    limits = [name for name in (wire.most_tokens, wire.most_tokens_else) if name and name not in unsupported]
    if most is not None and limits:
        request[limits[0]] = most
    if connection.temperature is not None and TEMPERATURE not in unsupported:
        request["temperature"] = connection.temperature
    if connection.reasoning_effort is not None and EFFORT not in unsupported:
        for name, value in wire.effort(connection.reasoning_effort).items():
            request[name] = {**request.get(name, {}), **value} if isinstance(value, dict) else value
    return request


def body_of(request: Mapping[str, Any]) -> bytes:
    """Serialize the request."""
    return json.dumps(request, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def most_of_body(body: bytes, connection: ModelConnection, pictures: Sequence[Image] = ()) -> Estimate:
    """Return an upper bound of the tokens of a request.

    A token has at least one byte, and the JSON around the texts outweighs the tokens that providers add. Each of
    `pictures` counts as `TOKENS_OF_PICTURE`, in place of its bytes in the body.

    """
    texts = len(body) - sum(len(each.base64) for each in pictures)
    most = texts + len(pictures) * TOKENS_OF_PICTURE
    return Estimate(input_tokens=most, output_tokens=connection.max_output_tokens or ASSUMED_OUTPUT_TOKENS)


def cost_usd(price: Price | None, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """Return the price of tokens in USD, or None if unknown. No tokens cost nothing, whatever the price is."""
    if (input_tokens, output_tokens) == (0, 0):
        return 0.0
    if price is None or input_tokens is None or output_tokens is None:
        return None
    return price.usd(input_tokens, output_tokens)
