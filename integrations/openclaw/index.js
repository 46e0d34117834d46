// The OpenClaw plugin of lossless: a context engine, four recall tools and the command /lcm, served by `lcm bridge`.
//
// A failure of ours never fails a turn: it is logged, and the host goes on with its own messages, bounded.

import { readFileSync } from "node:fs";

import { Bridge } from "./bridge.js";
import { Budgets } from "./budgets.js";
import { createEngine } from "./engine.js";
import { History } from "./history.js";
import { lender } from "./lender.js";
import { Subagents } from "./subagents.js";

const ENGINE = "lossless";
const BRIDGES = Symbol.for("lossless.openclaw.bridges");
const TOOLS = JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"));
const MANIFEST = JSON.parse(readFileSync(new URL("./openclaw.plugin.json", import.meta.url), "utf8"));
const ENDED = new Set(["idle", "daily", "deleted"]);

export default function register(api) {
  const memory = createMemory(api);
  const info = { id: ENGINE, name: MANIFEST.name, version: MANIFEST.version };
  if (typeof api.registerContextEngine === "function") {
    api.registerContextEngine(ENGINE, () => createEngine(memory, info));
  } else {
    const version = api.runtime?.version ?? "";
    memory.log.error(`lossless: OpenClaw ${version} takes no context engine from plugins: nothing is stored. Update lossless.`);
  }
  for (const tool of TOOLS) {
    api.registerTool((context) => createTool(memory, tool, context), { name: tool.name });
  }
  for (const name of ["lcm", "lossless"]) api.registerCommand(createCommand(memory, name));
  api.on("before_reset", (event, context) => beforeReset(memory, event, context));
  api.on("session_end", (event, context) => sessionEnd(memory, event, context));
}

/** Return what all parts of the plugin share. Of the host's configuration only the plugin's own part is read. */
function createMemory(api) {
  const { command, ...settings } = api.pluginConfig ?? {};
  const log = api.logger ?? console;
  const bridge = sharedBridge({
    command,
    settings,
    host: { name: "openclaw", version: String(api.runtime?.version ?? "") },
    format: "openclaw",
    lends: "openclaw",
    log: { info: (text) => log.info(text), warn: (text) => log.warn(text), error: (text) => log.error(text) },
  });
  const failed = (what, error) => report(log, what, error);
  // OpenClaw registers a plugin several times, and calls the engine of one and the tools of another.
  const { budgets, subagents } = (bridge.shared ??= { budgets: new Budgets(), subagents: new Subagents() });
  const memory = { api, bridge, log, failed, budgets, subagents };
  memory.conversation = (params) => conversation(memory, params);
  memory.history = new History(memory);
  return memory;
}

/** One process serves every registration of the plugin in this host that has the same settings. */
function sharedBridge(options) {
  const bridges = (globalThis[BRIDGES] ??= new Map());
  const name = JSON.stringify([options.command ?? null, options.settings]);
  const known = bridges.get(name);
  if (known) {
    known.log = options.log;
    return known;
  }
  const bridge = new Bridge(options);
  bridges.set(name, bridge);
  return bridge;
}

function conversation(memory, { sessionKey, sessionId }) {
  if (!sessionKey && !sessionId) throw new Error("OpenClaw named no session");
  const key = sessionKey || `openclaw:${sessionId}`;
  const parent = memory.subagents.parent(key);
  return { key, ...(sessionId ? { session: sessionId } : {}), ...(parent ? { parent } : {}) };
}

function report(log, what, error) {
  log.error(`lossless: ${what} failed: ${String(error?.message ?? error).replace(/^lossless: /, "")}`);
}

function createTool(memory, tool, context = {}) {
  const grant = memory.subagents.grant(context.sessionKey);
  // Only a reader with a grant expands by itself; all others ask with lcm_expand_query.
  if (tool.name === (grant ? "lcm_expand_query" : "lcm_expand")) return null;
  return {
    name: tool.name,
    label: tool.name,
    catalogMode: "direct-only",
    description: tool.description,
    parameters: tool.inputSchema,
    async execute(_id, args, signal) {
      try {
        const { text, details } = await memory.bridge.request(
          "tool/call",
          { conversation: memory.conversation(context), name: tool.name, arguments: args ?? {}, ...(grant ? { grant } : {}) },
          { lend: lender(memory.api.runtime?.llm, memory.log), signal, timeout: 180_000 },
        );
        return { content: [{ type: "text", text }], details };
      } catch (error) {
        memory.failed(tool.name, error);
        const details = { error: error.message, errorCode: error.code ?? "FAILED" };
        return { content: [{ type: "text", text: JSON.stringify(details) }], details };
      }
    },
  };
}

function createCommand(memory, name) {
  return {
    name,
    description: "Memory: status, doctor, compact, help",
    acceptsArgs: true,
    requireAuth: true,
    async handler(context) {
      try {
        const { text } = await memory.bridge.request(
          "command/run",
          { conversation: memory.conversation(context), text: context.args ?? "" },
          { lend: lender(context.runtimeContext?.llm ?? memory.api.runtime?.llm, memory.log), timeout: 300_000 },
        );
        return { text };
      } catch (error) {
        memory.failed(`/${name}`, error);
        return { text: error.message };
      }
    },
  };
}

async function beforeReset(memory, event, context) {
  const method = event?.reason === "new" ? "new" : "reset";
  try {
    await memory.history.read(context);
    await memory.bridge.request(method, { conversation: memory.conversation(context) });
  } catch (error) {
    memory.failed(`/${method}`, error);
  }
}

async function sessionEnd(memory, event, context) {
  const reason = event?.reason;
  if (!ENDED.has(reason)) return; // /new and /reset come by before_reset; after the others the session goes on
  try {
    const target = { sessionKey: event.sessionKey ?? context?.sessionKey, sessionId: event.sessionId ?? context?.sessionId };
    await memory.bridge.request("end", { conversation: memory.conversation(target), reason }, { timeout: 1_500 });
  } catch (error) {
    memory.failed("the end of a session", error);
  }
}
