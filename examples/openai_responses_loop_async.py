"""An agent with lossless memory, for asyncio, on OpenAI's responses API.

pip install 'lossless[openai]'
OPENAI_API_KEY=... python openai_responses_loop_async.py "What did we decide about the deploy key?"
"""

import asyncio
import sys

from openai import AsyncOpenAI

from lossless import AsyncLossless, Message
from lossless.formats import openai_responses
from lossless.tools import tools

MODEL, WINDOW = "gpt-5.4-mini", 200_000
SYSTEM = "You are the engineer on call for this project."


async def answer(question: str) -> None:
    async with AsyncLossless.open("agent.db") as lcm, AsyncOpenAI() as client:
        chat = lcm.conversation("agent:main:main")  # your stable name for this conversation
        memory = tools(chat)  # lcm_grep, lcm_describe, lcm_expand_query
        schemas = [{"type": "function", **schema["function"]} for schema in memory.schemas("openai")]
        await chat.ingest([Message.user(question)])
        while True:
            context = await chat.assemble(WINDOW, reserve=20_000, guidance="short", model=MODEL)
            request = openai_responses.dump(context, system=SYSTEM, model=MODEL)
            # The history is ours: nothing is stored at the provider, and reasoning comes back encrypted.
            request |= {"model": MODEL, "tools": schemas, "store": False, "include": ["reasoning.encrypted_content"]}
            async with client.responses.stream(**request) as stream:
                async for event in stream:
                    if event.type == "response.output_text.delta":
                        print(event.delta, end="", flush=True)
                reply = await stream.get_final_response()
            print()
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                # Stores the reply; compaction runs in the background, when it is needed.
                await chat.after_turn([openai_responses.load(reply)], WINDOW, model=MODEL, usage=reply.usage)
                return
            await chat.ingest([openai_responses.load(reply)])
            for call in calls:
                result = await memory.acall(call.name, call.arguments)
                await chat.ingest([Message.tool(result.text, call_id=call.call_id, name=call.name)])


if __name__ == "__main__":
    asyncio.run(answer(" ".join(sys.argv[1:])))
