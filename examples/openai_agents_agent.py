"""An agent of the OpenAI Agents SDK with lossless memory.

pip install 'lossless[openai-agents]'
OPENAI_API_KEY=... python openai_agents_agent.py "What did we decide about the deploy key?"
"""

import asyncio
import sys

from agents import Agent, Runner, set_tracing_disabled
from openai.types.responses import ResponseTextDeltaEvent

from lossless import Lossless
from lossless.hosts.openai_agents import LosslessSession, recall_tools

set_tracing_disabled(True)  # tracing sends the conversation to OpenAI's dashboard
MODEL, WINDOW = "gpt-5.4-mini", 200_000
AGENT = Agent(
    name="on-call",
    instructions="You are the engineer on call for this project.",
    model=MODEL,
    tools=[*recall_tools()],  # lcm_grep, lcm_describe, lcm_expand_query
)


async def answer(question: str) -> None:
    with Lossless.open("agent.db") as lcm:
        session = LosslessSession("main", lcm, window=WINDOW, model=MODEL)  # your stable name for this conversation
        result = Runner.run_streamed(AGENT, question, session=session, run_config=session.run_config())
        async for event in result.stream_events():
            if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                print(event.data.delta, end="", flush=True)
            elif event.type == "run_item_stream_event" and event.name == "message_output_created":
                print()


if __name__ == "__main__":
    asyncio.run(answer(" ".join(sys.argv[1:])))
