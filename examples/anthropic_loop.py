"""An agent with lossless memory on Anthropic's Messages API.

pip install 'lossless[anthropic]'
ANTHROPIC_API_KEY=... python anthropic_loop.py "What did we decide about the deploy key?"
"""

import sys

from anthropic import Anthropic

from lossless import Lossless, Message
from lossless.formats import anthropic
from lossless.tools import tools

MODEL, WINDOW = "claude-sonnet-5-5", 200_000
SYSTEM = "You are the engineer on call for this project."


def answer(question: str) -> None:
    with Lossless.open("agent.db") as lcm, Anthropic() as client:
        chat = lcm.conversation("agent:main:main")  # your stable name for this conversation
        memory = tools(chat)  # lcm_grep, lcm_describe, lcm_expand_query
        chat.ingest([Message.user(question)])
        while True:
            context = chat.assemble(WINDOW, reserve=20_000, guidance="short", model=MODEL)
            request = anthropic.dump(context, system=SYSTEM, model=MODEL)
            request |= {"model": MODEL, "max_tokens": 4096, "tools": memory.schemas("anthropic")}
            with client.messages.stream(**request) as stream:
                for text in stream.text_stream:
                    print(text, end="", flush=True)
                reply = stream.get_final_message()
            print()
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                # Stores the reply; compaction runs in the background, when it is needed.
                chat.after_turn([anthropic.load(reply)], WINDOW, model=MODEL, usage=reply.usage)
                return
            chat.ingest([anthropic.load(reply)])
            for call in calls:
                result = memory.call(call.name, call.input)
                chat.ingest([Message.tool(result.text, call_id=call.id, name=call.name)])


if __name__ == "__main__":
    answer(" ".join(sys.argv[1:]))
