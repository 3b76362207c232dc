"""Test cases that are too long for a judge."""

from hypothesis import given
from hypothesis import strategies as st

from evaluators.cutting import MOST_CHARACTERS, cut_to_fit
from evaluators.evaluator import LEFT_OUT
from evaluators.model import Case
from evaluators.outcome import Verdict
from tests.judging import judged
from tests.model_server import Says


def test_a_judge_is_shown_both_ends_of_what_is_too_long() -> None:
    """The question has the beginning and the end of a long output, and how much is missing, as the verdict says."""
    output = "BEGIN " + "x" * 500_000 + " END"
    case = {"inputs": {"input": "?"}, "actualOutputs": {"output": output}}
    configuration = {"criteria": "Is it polite?", "evaluationParams": ["ACTUAL_OUTPUT"]}
    verdict, (request,) = judged("llm_judge", configuration, case, Says({"score": 1, "reason": "yes"}))
    assert isinstance(verdict, Verdict)
    assert verdict.metadata[LEFT_OUT] == len(output) - 100_000
    assert "BEGIN xxx" in request.user
    assert "xxx END" in request.user
    assert f"[… {len(output) - 100_000} characters are left out here …]" in request.user
    assert len(request.user) < 101_000


def test_many_texts_share_what_a_judge_is_shown() -> None:
    """Of many texts that are long together each is cut, and short ones stay whole."""
    case = Case(inputs={"input": "short"}, metadata={"messages": [{"content": "y" * 90_000} for _ in range(39)]})
    cut, left_out = cut_to_fit(case)
    assert cut.inputs == {"input": "short"}
    assert left_out == 39 * 80_000
    assert sum(len(each["content"]) for each in cut.metadata["messages"]) < 1.1 * MOST_CHARACTERS


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=50) | st.lists(st.integers() | st.none()), max_size=5))
def test_what_fits_is_untouched(values: dict[str, object]) -> None:
    """A case that is not too long is the same object."""
    case = Case(inputs=values)
    assert cut_to_fit(case) == (case, 0)


def test_a_long_conversation_loses_its_middle() -> None:
    """Of thousands of messages a judge sees the first and the last, and how many are missing, within its bound."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} " + "z" * 1_500} for n in range(4_000)]
    case = Case(actual_outputs={"trajectory": {"messages": messages}, "toolCalls": [{"name": "a"}] * 2_000})
    cut, left_out = cut_to_fit(case)
    kept = cut.actual_outputs["trajectory"]["messages"]
    texts = [each["content"] for each in kept]
    assert sum(map(len, texts)) <= MOST_CHARACTERS
    assert texts[0].startswith("message 0 ")
    assert texts[-1].startswith("message 3999 ") or "left out" in texts[-1]
    assert [text for text in texts if text.startswith("[… 3700 messages are left out here …]")]
    assert left_out > 4_000 * 1_500 - MOST_CHARACTERS - 500_000
