"""A LangChain agent with lossless memory.

pip install 'lossless[langchain]' langchain-openai
OPENAI_API_KEY=... python langchain_agent.py "What did we decide about the deploy key?"
"""

import sys

from langchain.agents import create_agent
from langchain.agents.middleware.types import InputAgentState
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from lossless import Lossless
from lossless.hosts.langchain import LosslessMiddleware

MODEL, WINDOW = "gpt-5.4-mini", 200_000
SYSTEM = "You are the engineer on call for this project."


def answer(question: str) -> None:
    with Lossless.open("agent.db") as lcm:
        memory = LosslessMiddleware(lcm, window=WINDOW)  # brings lcm_grep, lcm_describe, lcm_expand_query
        agent = create_agent(
            ChatOpenAI(model=MODEL, streaming=True),
            system_prompt=SYSTEM,
            middleware=[memory],
            checkpointer=InMemorySaver(),  # or one that lasts; the memory lasts in any case
        )
        thread: RunnableConfig = {"configurable": {"thread_id": "main"}}  # your stable name for this conversation
        given: InputAgentState = {"messages": [HumanMessage(question)]}
        for chunk, _ in agent.stream(given, thread, stream_mode="messages"):
            if isinstance(chunk, AIMessageChunk):
                print(chunk.text, end="\n" if chunk.chunk_position == "last" else "", flush=True)


if __name__ == "__main__":
    answer(" ".join(sys.argv[1:]))
