"""An agent with lossless memory on OpenAI's chat completions API, or any server that speaks it.

pip install 'lossless[openai]'
OPENAI_API_KEY=... python openai_chat_loop.py "What did we decide about the deploy key?"
"""

import sys

from openai import OpenAI

from lossless import Lossless, Message
from lossless.formats import openai_chat
from lossless.tools import tools

MODEL, WINDOW = "gpt-5.4-mini", 200_000
SYSTEM = "You are the engineer on call for this project."


def answer(question: str) -> None:
    with Lossless.open("agent.db") as lcm, OpenAI() as client:
        chat = lcm.conversation("agent:main:main")  # your stable name for this conversation
        memory = tools(chat)  # lcm_grep, lcm_describe, lcm_expand_query
        chat.ingest([Message.user(question)])
        while True:
            context = chat.assemble(WINDOW, reserve=20_000, guidance="short", model=MODEL)
            request = openai_chat.dump(context, system=SYSTEM, model=MODEL)
            request |= {"model": MODEL, "tools": memory.schemas("openai"), "stream_options": {"include_usage": True}}
            with client.chat.completions.stream(**request) as stream:
                for event in stream:
                    if event.type == "content.delta":
                        print(event.delta, end="", flush=True)
                reply = stream.get_final_completion()
            print()
            calls = reply.choices[0].message.tool_calls or []
            if not calls:
                # Stores the reply; compaction runs in the background, when it is needed.
                chat.after_turn([openai_chat.load(reply)], WINDOW, model=MODEL, usage=reply.usage)
                return
            chat.ingest([openai_chat.load(reply)])
            for call in calls:
                result = memory.call(call.function.name, call.function.arguments)
                chat.ingest([Message.tool(result.text, call_id=call.id, name=call.function.name)])


if __name__ == "__main__":
    answer(" ".join(sys.argv[1:]))
