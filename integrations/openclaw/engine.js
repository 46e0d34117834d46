// The context engine: the lifecycle methods of OpenClaw 2026.9, each a request to the bridge.
//
// OpenClaw stops using an engine that throws. So no method throws, and each says what the host should do instead.

import { boundedMessages, estimateTokens } from "./bridge.js";
import { lender } from "./lender.js";

const WITHOUT_MEMORY =
  "The long-term memory of this conversation is not available now, and older messages may be missing from it. " +
  "If you are asked about something you cannot see, say so.";
const DEFAULT_WINDOW = 128_000;
const NO_CHANGE = { changed: false, bytesFreed: 0, rewrittenEntries: 0 };

export function createEngine(memory, { id, name, version }) {
  const { bridge, budgets, conversation, failed, history, log, subagents } = memory;
  return {
    info: {
      id,
      name,
      version,
      ownsCompaction: true,
      turnMaintenanceMode: "background",
      acceptedHostParams: ["sessionKey", "prompt", "sessionTarget", "runtimeSettings", "runtimeContext", "abortSignal"],
      transcriptSemantics: {
        currentTurnFence: "before-current-turn-entry-v1",
        turnAdvancementIdempotency: "atomic-idempotent-v1",
      },
    },

    async bootstrap(params) {
      try {
        const { stored, reason } = await history.read(params);
        return { bootstrapped: !reason, importedMessages: stored, ...(reason ? { reason } : {}) };
      } catch (error) {
        failed("bootstrap", error);
        return { bootstrapped: false, reason: error.message };
      }
    },

    /** Hosts with durable turns deliver by commitTurn; others would by this. */
    async ingest(params) {
      try {
        await bridge.request("ingest", { conversation: conversation(params), messages: [params.message] });
        return { ingested: true };
      } catch (error) {
        failed("ingest", error);
        return { ingested: false };
      }
    },

    async commitTurn(params) {
      const { advancementKey, admission, terminal, messages } = params;
      try {
        const { status } = await bridge.request("commitTurn", {
          conversation: conversation(params),
          advancementKey,
          messages,
          ids: entryIds(messages, admission, terminal),
          ...limits(budgets, params),
        });
        return { status };
      } catch (error) {
        failed("commitTurn", error);
        // Neither of the two answers the host accepts: the turn stays in its queue, and comes again.
        return { status: "failed" };
      }
    },

    async assemble(params) {
      const key = params.sessionKey || params.sessionId;
      const held = Array.isArray(params.messages) ? params.messages : [];
      // Only the call before the turn has these, if empty.
      const isFirst = "runtimeContext" in params || "prompt" in params;
      const tokens = isFirst
        ? budgets.begin(key, params.tokenBudget, params.model)
        : budgets.within(key, params.tokenBudget);
      try {
        const found = await bridge.request("assemble", {
          conversation: conversation(params),
          messages: held,
          promptFollows: true,
          guidance: params.availableTools && !params.availableTools.has("lcm_grep") ? "none" : "short",
          ...(tokens ? { window: tokens } : {}),
          ...(params.model ? { model: params.model } : {}),
        });
        return {
          messages: found.messages,
          estimatedTokens: found.tokens,
          ...(found.system ? { systemPromptAddition: found.system } : {}),
        };
      } catch (error) {
        failed("assemble", error);
        const messages = boundedMessages(held, tokens ?? DEFAULT_WINDOW);
        const estimatedTokens = messages.reduce((sum, message) => sum + estimateTokens(message), 0);
        return { messages, estimatedTokens, systemPromptAddition: WITHOUT_MEMORY };
      }
    },

    async compact(params) {
      try {
        const done = await bridge.request(
          "compact",
          {
            conversation: conversation(params),
            force: params.force === true,
            ...(params.currentTokenCount > 0 ? { observed: Math.round(params.currentTokenCount) } : {}),
            ...limits(budgets, params),
          },
          { lend: lender(params.runtimeContext?.llm, log), signal: params.abortSignal, timeout: 600_000 },
        );
        const result = { tokensBefore: done.tokensBefore, tokensAfter: done.tokensAfter };
        return { ok: true, compacted: done.compacted, reason: done.stop, result };
      } catch (error) {
        if (params.abortSignal?.aborted) throw params.abortSignal.reason ?? error;
        failed("compact", error);
        return { ok: false, compacted: false, reason: error.message };
      }
    },

    async maintain(params) {
      const lend = lender(params.runtimeContext?.llm, log);
      if (!lend) return { ...NO_CHANGE, reason: "the host lends no model now" };
      try {
        await bridge.request(
          "maintain",
          { conversation: conversation(params) },
          { lend, signal: params.abortSignal, timeout: 600_000 },
        );
        return { ...NO_CHANGE, reason: "transcripts are never rewritten" };
      } catch (error) {
        if (!params.abortSignal?.aborted) failed("maintain", error);
        return { ...NO_CHANGE, reason: error.message };
      }
    },

    async prepareSubagentSpawn({ parentSessionKey, childSessionKey, childSessionId, parentSessionId, ttlMs }) {
      try {
        const child = { key: childSessionKey, ...(childSessionId ? { session: childSessionId } : {}) };
        const { grant } = await bridge.request("subagent/start", {
          conversation: conversation({ sessionKey: parentSessionKey, sessionId: parentSessionId }),
          child,
          ...(ttlMs > 0 ? { seconds: ttlMs / 1000 } : {}),
        });
        subagents.add(childSessionKey, parentSessionKey, grant);
        return { rollback: () => endSubagent(memory, childSessionKey, "failed") };
      } catch (error) {
        failed("prepareSubagentSpawn", error);
        return undefined;
      }
    },

    async onSubagentEnded({ childSessionKey, reason }) {
      await endSubagent(memory, childSessionKey, reason);
    },

    /** The process serves every engine of this host, and ends with the host. */
    async dispose() {},
  };
}

async function endSubagent({ bridge, subagents, failed }, child, reason) {
  const known = subagents.remove(child);
  if (!known && reason !== "deleted") return;
  try {
    await bridge.request("subagent/end", { child: { key: child }, reason, ...(known ? { grant: known.grant } : {}) });
  } catch (error) {
    failed("the end of a sub-agent", error);
  }
}

/** The host names the first and the last entry of a turn. Those between are known by the turn and their place. */
function entryIds(messages, admission, terminal) {
  const ids = messages.map(() => null);
  if (messages.length > 1 && terminal?.entryId) ids[messages.length - 1] = terminal.entryId;
  if (messages.length > 0 && admission?.entryId) ids[0] = admission.entryId;
  return ids;
}

/** What fits at the beginning of a turn, and for which model: as the host said there, else as it says now. */
function limits(budgets, { sessionKey, sessionId, tokenBudget, runtimeSettings, runtimeContext }) {
  const key = sessionKey || `openclaw:${sessionId}`;
  const tokens = budgets.base(key) ?? tokenBudget ?? runtimeContext?.tokenBudget;
  const model = budgets.model(key) ?? runtimeSettings?.model?.resolved ?? runtimeContext?.modelId;
  return { ...(tokens >= 1 ? { window: Math.floor(tokens) } : {}), ...(model ? { model } : {}) };
}
