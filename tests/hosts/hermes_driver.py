"""Run turns of Hermes's agent class in its own environment: a plan as JSON on standard input, a report on standard output."""

from __future__ import annotations

import copy
import json
import sys
import time
from importlib import import_module
from typing import Any

PATIENCE = 60.0


class Driver:
    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.rows = import_module("hermes_state").SessionDB()
        resumed = plan.get("resume")
        self.history: list[dict[str, Any]] = (
            self.rows.get_messages_as_conversation(resumed, repair_alternation=True) if resumed else []
        )
        self.agent = import_module("run_agent").AIAgent(
            api_key="sk-test",
            model="stand-in",
            quiet_mode=True,
            max_iterations=60,
            skip_context_files=True,
            skip_memory=True,
            session_db=self.rows,
            **({"session_id": resumed} if resumed else {}),
            **plan["agent"],
        )

    def run(self) -> dict[str, Any]:
        engine = self.agent.context_compressor
        copied = copy.deepcopy(engine)
        turns = [self.step(step) for step in self.plan["steps"]]
        self.agent.shutdown_memory_provider(self.history)
        return {
            "engine": engine.name,
            "copy": [type(copied).__name__, copied is engine, copied._memory is engine._memory],
            "tools": sorted(tool["function"]["name"] for tool in self.agent.tools),
            "turns": turns,
            "session": self.agent.session_id,
            "held": len(self.history),
            "status": engine.get_status(),
            "usage": engine.last_prompt_tokens,
        }

    def step(self, step: str) -> str:
        if step == "/compress":
            self.history, _ = self.agent._compress_context(self.history, None, force=True)
            return str(self.agent.session_id)
        if step == "/wait":
            return self.wait_for_subagents()
        done = self.agent.run_conversation(step, conversation_history=self.history)
        self.history = done["messages"]
        return str(done["final_response"])

    def wait_for_subagents(self) -> str:
        """Sub-agents work on threads of Hermes while the conversation goes on."""
        running, until = import_module("tools.async_delegation").active_count, time.monotonic() + PATIENCE
        while running() and time.monotonic() < until:
            time.sleep(0.05)
        return f"{running()} run"


if __name__ == "__main__":
    report = Driver(json.load(sys.stdin)).run()
    sys.stdout.write(f"\n{json.dumps(report)}\n")
