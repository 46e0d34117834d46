"""Take turns of Hermes's agent class in its own environment: one line of JSON for each prompt, one for each answer.

The first line is the messages that the agent starts with. An answer says how long the turn took, and how many messages Hermes
holds after it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Hermes prints is no answer
    agent = import_module("run_agent").AIAgent(
        api_key="sk-test",
        model="stand-in",
        provider="custom",
        base_url=os.environ["BENCH_URL"],
        quiet_mode=True,
        skip_context_files=True,
        skip_memory=True,
        enabled_toolsets=["context_engine", "file"],
        session_db=import_module("hermes_state").SessionDB(),
    )
    history = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        done = agent.run_conversation(json.loads(line), conversation_history=history)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        history = done["messages"]
        answers.write(json.dumps({"spent": spent, "held": len(history), "engine": _engine(agent)}) + "\n")
        answers.flush()


def _engine(agent: object) -> str:
    return str(getattr(getattr(agent, "context_compressor", None), "name", ""))


if __name__ == "__main__":
    main()
