"""An agent of pydantic-ai with lossless memory.

pip install 'lossless[pydantic-ai]' 'pydantic-ai-slim[openai]'
OPENAI_API_KEY=... python pydantic_ai_agent.py "What did we decide about the deploy key?"
"""

import asyncio
import sys

from pydantic_ai import Agent, PartDeltaEvent, PartEndEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIResponsesModel

from lossless import Lossless
from lossless.hosts.pydantic_ai import LosslessMemory

MODEL, WINDOW = "gpt-5.4-mini", 200_000
SYSTEM = "You are the engineer on call for this project."


async def answer(question: str) -> None:
    with Lossless.open("agent.db") as lcm:
        memory = LosslessMemory(lcm, window=WINDOW)  # brings lcm_grep, lcm_describe, lcm_expand_query
        agent = Agent(OpenAIResponsesModel(MODEL), instructions=SYSTEM, capabilities=[memory])
        # The id is your stable name for this conversation. A message_history is not needed.
        async with agent.run_stream_events(question, conversation_id="main") as events:
            async for event in events:
                match event:
                    case (
                        PartStartEvent(part=TextPart(content=text))
                        | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                    ):
                        print(text, end="", flush=True)
                    case PartEndEvent(part=TextPart()):
                        print()


if __name__ == "__main__":
    asyncio.run(answer(" ".join(sys.argv[1:])))
