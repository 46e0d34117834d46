"""An agent with lossless memory on OpenAI's responses API.

pip install 'lossless[openai]'
OPENAI_API_KEY=... python openai_responses_loop.py "What did we decide about the deploy key?"
"""

import sys

from openai import OpenAI

from lossless import Lossless, Message
from lossless.formats import openai_responses
from lossless.tools import tools

MODEL, WINDOW = "gpt-5.4-mini", 200_000
SYSTEM = "You are the engineer on call for this project."


def answer(question: str) -> None:
    with Lossless.open("agent.db") as lcm, OpenAI() as client:
        chat = lcm.conversation("agent:main:main")  # your stable name for this conversation
        memory = tools(chat)  # lcm_grep, lcm_describe, lcm_expand_query
        schemas = [{"type": "function", **schema["function"]} for schema in memory.schemas("openai")]
        chat.ingest([Message.user(question)])
        while True:
            context = chat.assemble(WINDOW, reserve=20_000, guidance="short", model=MODEL)
            request = openai_responses.dump(context, system=SYSTEM, model=MODEL)
            # The history is ours: nothing is stored at the provider, and reasoning comes back encrypted.
            request |= {"model": MODEL, "tools": schemas, "store": False, "include": ["reasoning.encrypted_content"]}
            with client.responses.stream(**request) as stream:
                for event in stream:
                    if event.type == "response.output_text.delta":
                        print(event.delta, end="", flush=True)
                reply = stream.get_final_response()
            print()
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                # Stores the reply; compaction runs in the background, when it is needed.
                chat.after_turn([openai_responses.load(reply)], WINDOW, model=MODEL, usage=reply.usage)
                return
            chat.ingest([openai_responses.load(reply)])
            for call in calls:
                result = memory.call(call.name, call.arguments)
                chat.ingest([Message.tool(result.text, call_id=call.call_id, name=call.name)])


if __name__ == "__main__":
    answer(" ".join(sys.argv[1:]))
