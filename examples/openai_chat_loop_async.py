"""An agent with lossless memory, for asyncio, on OpenAI's chat completions API, or any server that speaks it.

pip install 'lossless[openai]'
OPENAI_API_KEY=... python openai_chat_loop_async.py "What did we decide about the deploy key?"
"""

import asyncio
import sys

from openai import AsyncOpenAI

from lossless import AsyncLossless, Message
from lossless.formats import openai_chat
from lossless.tools import tools

MODEL, WINDOW = "gpt-5.4-mini", 200_000
SYSTEM = "You are the engineer on call for this project."


async def answer(question: str) -> None:
    async with AsyncLossless.open("agent.db") as lcm, AsyncOpenAI() as client:
        chat = lcm.conversation("agent:main:main")  # your stable name for this conversation
        memory = tools(chat)  # lcm_grep, lcm_describe, lcm_expand_query
        await chat.ingest([Message.user(question)])
        while True:
            context = await chat.assemble(WINDOW, reserve=20_000, guidance="short", model=MODEL)
            request = openai_chat.dump(context, system=SYSTEM, model=MODEL)
            request |= {"model": MODEL, "tools": memory.schemas("openai"), "stream_options": {"include_usage": True}}
            async with client.chat.completions.stream(**request) as stream:
                async for event in stream:
                    if event.type == "content.delta":
                        print(event.delta, end="", flush=True)
                reply = await stream.get_final_completion()
            print()
            calls = reply.choices[0].message.tool_calls or []
            if not calls:
                # Stores the reply; compaction runs in the background, when it is needed.
                await chat.after_turn([openai_chat.load(reply)], WINDOW, model=MODEL, usage=reply.usage)
                return
            await chat.ingest([openai_chat.load(reply)])
            for call in calls:
                result = await memory.acall(call.function.name, call.function.arguments)
                await chat.ingest([Message.tool(result.text, call_id=call.id, name=call.function.name)])


if __name__ == "__main__":
    asyncio.run(answer(" ".join(sys.argv[1:])))
