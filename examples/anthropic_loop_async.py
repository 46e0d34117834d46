"""An agent with lossless memory, for asyncio, on Anthropic's Messages API.

pip install 'lossless[anthropic]'
ANTHROPIC_API_KEY=... python anthropic_loop_async.py "What did we decide about the deploy key?"
"""

import asyncio
import sys

from anthropic import AsyncAnthropic

from lossless import AsyncLossless, Message
from lossless.formats import anthropic
from lossless.tools import tools

MODEL, WINDOW = "claude-sonnet-5-5", 200_000
SYSTEM = "You are the engineer on call for this project."


async def answer(question: str) -> None:
    async with AsyncLossless.open("agent.db") as lcm, AsyncAnthropic() as client:
        chat = lcm.conversation("agent:main:main")  # your stable name for this conversation
        memory = tools(chat)  # lcm_grep, lcm_describe, lcm_expand_query
        await chat.ingest([Message.user(question)])
        while True:
            context = await chat.assemble(WINDOW, reserve=20_000, guidance="short", model=MODEL)
            request = anthropic.dump(context, system=SYSTEM, model=MODEL)
            request |= {"model": MODEL, "max_tokens": 4096, "tools": memory.schemas("anthropic")}
            async with client.messages.stream(**request) as stream:
                async for text in stream.text_stream:
                    print(text, end="", flush=True)
                reply = await stream.get_final_message()
            print()
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                # Stores the reply; compaction runs in the background, when it is needed.
                await chat.after_turn([anthropic.load(reply)], WINDOW, model=MODEL, usage=reply.usage)
                return
            await chat.ingest([anthropic.load(reply)])
            for call in calls:
                result = await memory.acall(call.name, call.input)
                await chat.ingest([Message.tool(result.text, call_id=call.id, name=call.name)])


if __name__ == "__main__":
    asyncio.run(answer(" ".join(sys.argv[1:])))
