"""Texts in the place of the user's question that are not questions: feedback on an answer, or a workflow's state."""

import re
from typing import Final

from collector.conventions.member import TraceMember
from collector.conventions.pieces import parts_by_type, words_of

FEEDBACK: Final = (
    r"(?s)^\s*(?:"
    r"Your previous response failed the application's validation \(|<pyai:|"  # pydantic-ai 2
    r"(?:Validation feedback:|\d+ validation errors?:|Plain text responses are not permitted|"
    r"Please (?:return text or )?include your response in a tool call).*Fix the errors and try again\.\s*$|"
    r"Validation Errors? found:\n.*Recall the function correctly|"  # instructor
    r"Correct your JSON ONLY RESPONSE, based on the following errors:|"
    r"Recall the function correctly, fix the errors|"
    r"I was given the following (?:JSON )?response, which (?:had problems|was not parseable)|"  # Guardrails
    r"Error: Could not parse output\. Please follow the thought-action-input format)"  # LlamaIndex
)
"""Beginnings of the feedback that libraries send in the user's place, as an expression for Python's `re` and RE2."""

STATE_INPUTS: Final = ('{"init_state": ', '{"ctx": "<workflows.', '{"ctx": "<llama_index.')
STATE_OUTPUTS: Final = ("StopEvent(result=",)
"""Beginnings of LlamaIndex's workflow states and events, which contain neither the question nor the answer."""

_FEEDBACK: Final = re.compile(FEEDBACK)


def is_feedback(text: str) -> bool:
    """Return whether a text in the user's place is a library's feedback on the model's answer before."""
    return _FEEDBACK.match(text) is not None


def is_state(text: str) -> bool:
    """Return whether a text is the state of a workflow, or the event that ends it."""
    return text.startswith(STATE_INPUTS + STATE_OUTPUTS)


def question_of(span: TraceMember) -> str | None:
    """Return the last text of the user in a span's input, except feedback."""
    for message in reversed(span.input_messages or ()):
        if message["role"] == "user" and not any(parts_by_type(message, "tool_call_response")):
            words = words_of(message)
            if words.strip() and not is_feedback(words):
                return words
    return None
