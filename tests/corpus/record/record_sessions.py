# mypy: ignore-errors
# the libraries are those of the dialect that each is recorded with
"""Sessions of three turns as four frameworks trace them: the last argument; before it for Vercel its folder."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.corpus.record import script
from tests.corpus.record.recording import Recording, export_logs, export_traces, recording

QUESTIONS = (script.CAPITAL, script.WEATHER, script.COUNT)


def adk(recorder: Recording) -> None:
    """Record one runner of Google's ADK, which keeps the session; version 2."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_AND_EVENT"
    export_traces(recorder)
    export_logs(recorder)
    from tests.corpus.record.record_adk import ask

    with recorder.session("adk-2"):
        asyncio.run(ask(*QUESTIONS))


def openai_agents(recorder: Recording) -> None:
    """Record the OpenAI Agents SDK with a session in memory, under OpenInference."""
    from agents import RunConfig, Runner, SQLiteSession, set_default_openai_client
    from openai import AsyncOpenAI
    from openinference.instrumentation import using_session
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    from tests.corpus.record.record_openinference_openai_agents import agent

    export_traces(recorder)
    OpenAIAgentsInstrumentor().instrument()
    set_default_openai_client(AsyncOpenAI(), use_for_tracing=False)

    async def talk() -> None:
        session = SQLiteSession(script.SESSION)
        for question in QUESTIONS:
            with using_session(script.SESSION):
                config = RunConfig(group_id=script.SESSION)
                await Runner.run(agent(), question, session=session, run_config=config)

    with recorder.session("openai-agents"):
        asyncio.run(talk())


def langgraph(recorder: Recording) -> None:
    """Record an agent of LangGraph with a checkpointer, whose thread is the session, under OpenInference."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from openinference.instrumentation.langchain import LangChainInstrumentor

    from tests.corpus.record.langchain_application import get_weather

    export_traces(recorder)
    LangChainInstrumentor().instrument()
    model = ChatOpenAI(model=script.CHAT_MODEL)
    agent = create_agent(model, tools=[get_weather], name="assistant", checkpointer=InMemorySaver())
    with recorder.session("langgraph"):
        for question in QUESTIONS:
            agent.invoke({"messages": [("user", question)]}, config={"configurable": {"thread_id": script.SESSION}})


def vercel(recorder: Recording) -> None:
    """Record the Vercel AI SDK, version 5, whose application resends the messages; in a process of Node."""
    from tests.corpus.record.record_vercel import PROGRAM, SCRIPT

    program = Path(shutil.copy(PROGRAM, sys.argv[1]))
    env = os.environ | {"SCRIPT": json.dumps(SCRIPT | {"questions": QUESTIONS})}
    with recorder.session("vercel-5"):
        subprocess.run(["node", program, "session"], check=True, env=env)


FRAMEWORKS = {"adk": adk, "openai-agents": openai_agents, "langgraph": langgraph, "vercel": vercel}


def main() -> None:
    """Record the session of one framework."""
    framework = sys.argv[-1]
    with recording(f"session-{framework}") as recorder:
        FRAMEWORKS[framework](recorder)


if __name__ == "__main__":
    main()
