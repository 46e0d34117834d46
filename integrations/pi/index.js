// Memory for the pi coding agent: every message is stored by lossless, and each request to the model is assembled from
// summaries and the newest messages. Plain JavaScript, no build step.
//
// pi appends each message to the file of its session. The bridge reads that file, with the entries' ids, exactly as
// `lcm import` does: a message is stored once, whichever of the two comes first.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Bridge, boundedMessages, estimateTokens } from "./bridge.js";

const PLACE = dirname(fileURLToPath(import.meta.url));
const PI_RESERVE = 16_384; // pi compacts by itself above the window less this
const DEFAULT_WINDOW = 128_000;
const SHUTDOWN_WAIT = 30_000;
const COMPACT_WAIT = 300_000;
const REPEAT_AFTER = 60_000;
const SUMMARY = /<summary id="sum_/;

/** The version of pi, under either name of its package; empty if it does not tell. */
async function readVersion() {
  for (const name of ["@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent"]) {
    try {
      return String((await import(name)).VERSION ?? "");
    } catch {
      // The other name, or none: only what people are told depends on it.
    }
  }
  return "";
}

/** Read what `lcm install pi` wrote beside this file: {"command": [...], "settings": {...}}. Both may be missing. */
function readConfig() {
  const path = join(PLACE, "lossless.json");
  if (!existsSync(path)) return {};
  return JSON.parse(readFileSync(path, "utf8"));
}

/** The conversation of a session: under the key that `lcm import` gives it. */
function conversation(ctx) {
  const session = ctx.sessionManager.getSessionId();
  return { key: `openclaw:${session}`, session };
}

/** An entry of a session as a message; undefined if it holds none. */
function asMessage(entry) {
  if (entry.type === "message") return entry.message;
  if (entry.type !== "custom_message") return undefined;
  const { customType, content, display, details } = entry;
  return { role: "custom", customType, content, display, ...(details === undefined ? {} : { details }) };
}

/** What tells a message of the session from its neighbours. */
function mark(message, time = message.timestamp) {
  return JSON.stringify([message.role, time, message.toolCallId ?? message.customType]);
}

/** The ids of messages that pi is about to send, null for those that are in no entry. */
function idsOf(messages, branch) {
  const known = new Map();
  for (const entry of branch) {
    const message = asMessage(entry);
    if (!message) continue;
    const name = mark(message, message.timestamp ?? Date.parse(entry.timestamp));
    known.set(name, [...(known.get(name) ?? []), entry.id]);
  }
  return messages.map((message) => known.get(mark(message))?.shift() ?? null);
}

function textOf(message) {
  if (typeof message.content === "string") return message.content;
  return (message.content ?? []).map((block) => block.text ?? "").join("");
}

export default async function lossless(pi) {
  const version = await readVersion();
  let bridge = null;
  let starts = 0;
  let background = null;
  let last = null;
  const reported = new Map();
  const registered = new Set();
  const delivered = new Set();

  /** Show an error where the user sees it, the same one at most once a minute. */
  function report(error) {
    const text = String(error?.message ?? error);
    if (Date.now() - (reported.get(text) ?? 0) < REPEAT_AFTER) return;
    reported.set(text, Date.now());
    const line = text.startsWith("lossless") ? text : `lossless: ${text}`;
    try {
      if (last?.hasUI) last.ui.notify(line, "error");
      else console.error(line);
    } catch {
      console.error(line); // the session was replaced, and its screen with it
    }
  }

  function connect(ctx) {
    last = ctx;
    if (bridge) return;
    const { command, settings } = readConfig();
    const log = { info: () => {}, warn: () => {}, error: report }; // warnings: `lcm status` and `lcm doctor`
    const lends = typeof ctx.modelRegistry?.streamSimple === "function" && ctx.model ? named(ctx.model) : null;
    bridge = new Bridge({ command, host: { name: "pi", version }, settings, lends, log });
  }

  const named = (model) => `${model.provider}/${model.id}`;

  /** The model of the session, for summaries. */
  function lender(ctx) {
    if (!bridge.lends) return undefined;
    return async ({ system, prompt, maxTokens, model: wish }, signal) => {
      const [provider, ...id] = (wish ?? "").split("/");
      const model = (wish && ctx.modelRegistry.find(provider, id.join("/"))) || ctx.model;
      const messages = [{ role: "user", content: [{ type: "text", text: prompt }], timestamp: Date.now() }];
      const stream = ctx.modelRegistry.streamSimple(model, { systemPrompt: system, messages }, { maxTokens, signal });
      const reply = await stream.result();
      if (reply.stopReason === "error" || reply.stopReason === "aborted") {
        const status = Number(/\b([45]\d\d)\b/.exec(reply.errorMessage ?? "")?.[1]);
        throw Object.assign(new Error(reply.errorMessage ?? reply.stopReason), status ? { status } : {});
      }
      return { text: textOf(reply), model: named(model), cut: reply.stopReason === "length" };
    };
  }

  /** The tokens that prompt, tools and reply take, and what is left of the window for messages. */
  function sizes(ctx) {
    const window = ctx.model?.contextWindow || DEFAULT_WINDOW;
    const active = new Set(pi.getActiveTools());
    const tools = pi.getAllTools().filter((tool) => active.has(tool.name));
    const shapes = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
    const prompt = estimateTokens(ctx.getSystemPrompt()) + estimateTokens(shapes);
    const reply = Math.min(Math.max(PI_RESERVE, ctx.model?.maxTokens ?? 0), Math.floor(window / 4));
    return { prompt, space: Math.max(window - reply - prompt, Math.floor(window / 8)) };
  }

  /** Store what the session has now. */
  async function store(ctx, options = {}) {
    const file = ctx.sessionManager.getSessionFile();
    if (file && existsSync(file)) {
      await bridge.request("transcript", { conversation: conversation(ctx), path: file }, options);
      return;
    }
    // The first reply creates the file; a session in memory has none.
    const { key } = conversation(ctx);
    if (bridge.starts !== starts) delivered.clear(); // another process may have another database
    starts = bridge.starts;
    const fresh = ctx.sessionManager.getBranch().filter((entry) => !delivered.has(`${key} ${entry.id}`));
    const entries = fresh.map((entry) => ({ id: entry.id, message: asMessage(entry) })).filter((each) => each.message);
    if (!entries.length) return;
    await bridge.request("bootstrap", { conversation: conversation(ctx), entries });
    for (const entry of fresh) delivered.add(`${key} ${entry.id}`);
  }

  async function assemble(ctx, messages) {
    // What came before the newest prompt is stored by now.
    const start = Math.max(messages.findLastIndex(({ role }) => role === "user"), 0);
    const live = messages.slice(start).filter(({ role }) => role !== "compactionSummary" && role !== "branchSummary");
    const shown = await bridge.request(
      "assemble",
      {
        conversation: conversation(ctx),
        messages: live,
        ids: idsOf(live, ctx.sessionManager.getBranch()),
        window: sizes(ctx).space,
        ...(ctx.model ? { model: named(ctx.model) } : {}),
      },
      { signal: ctx.signal },
    );
    // Nothing is stored for this session, or the database does not answer: an event of the bridge says so.
    if (shown.reason?.startsWith("live")) return { messages: [], uncovered: 0 };
    return { ...shown, messages: shown.messages.filter(({ role }) => role !== "system") };
  }

  async function compact(ctx, more = {}, signal = ctx.signal) {
    const params = { conversation: conversation(ctx), window: sizes(ctx).space, ...more };
    return await bridge.request("compact", params, { lend: lender(ctx), signal, timeout: COMPACT_WAIT });
  }

  /** Compact while the user reads, so that no turn waits for a summary. */
  function compactInBackground(ctx) {
    if (background) return;
    const work = async () => {
      await compact(ctx, {}, undefined);
      const params = { conversation: conversation(ctx) };
      await bridge.request("maintain", params, { lend: lender(ctx), timeout: COMPACT_WAIT });
    };
    background = work()
      .catch(report)
      .finally(() => {
        background = null;
      });
  }

  async function registerTools(ctx) {
    if (!bridge.info) await bridge.request("status", {});
    for (const note of bridge.info.notes ?? []) report(note);
    for (const { name, description, inputSchema } of bridge.info.tools) {
      // lcm_expand is for sub-agents with a grant.
      if (name === "lcm_expand" || registered.has(name)) continue;
      registered.add(name);
      pi.registerTool({
        name,
        label: name,
        description,
        promptSnippet: description.split(". ")[0],
        parameters: inputSchema,
        async execute(_id, args, signal, _onUpdate, ctx) {
          const params = { conversation: conversation(ctx), name, arguments: args };
          const options = { lend: lender(ctx), signal, timeout: COMPACT_WAIT };
          const done = await bridge.request("tool/call", params, options);
          if (done.isError) throw new Error(done.text);
          return { content: [{ type: "text", text: done.text }], details: done.details };
        },
      });
    }
  }

  /** Do something for memory's sake. Whatever fails is shown, and pi goes on. */
  async function attempt(ctx, work) {
    try {
      connect(ctx);
      return await work();
    } catch (error) {
      if (error?.code !== "CANCELLED") report(error);
      return undefined;
    }
  }

  pi.on("session_start", async (_event, ctx) => {
    await attempt(ctx, () => registerTools(ctx));
    // A long history is read while the user types.
    if (registered.size) void attempt(ctx, () => store(ctx, { timeout: COMPACT_WAIT }));
  });

  pi.on("before_agent_start", async (_event, ctx) => {
    if (!registered.size) await attempt(ctx, () => registerTools(ctx));
  });

  pi.on("context", async (event, ctx) => {
    const shown = await attempt(ctx, async () => {
      await store(ctx);
      let found = await assemble(ctx, event.messages);
      if (found.uncovered && background) {
        await background;
        found = await assemble(ctx, event.messages);
      }
      if (found.uncovered) {
        await compact(ctx, { force: true });
        found = await assemble(ctx, event.messages);
      }
      return found;
    });
    const asked = event.messages.filter(({ role }) => role === "branchSummary");
    if (shown?.messages.length) return { messages: [...asked, ...shown.messages] };
    return { messages: boundedMessages(event.messages, sizes(ctx).space) };
  });

  for (const name of ["turn_end", "agent_end"]) {
    pi.on(name, async (_event, ctx) => {
      await attempt(ctx, () => store(ctx));
    });
  }

  pi.on("agent_settled", async (_event, ctx) => {
    await attempt(ctx, async () => compactInBackground(ctx));
  });

  pi.on("session_before_compact", async (event, ctx) => {
    const { firstKeptEntryId, tokensBefore } = event.preparation;
    const isAutomatic = event.reason === "threshold";
    const summary = await attempt(ctx, async () => {
      await store(ctx);
      await compact(ctx, { force: !isAutomatic }, event.signal);
      const { messages } = await assemble(ctx, []);
      return messages.map(textOf).filter((text) => SUMMARY.test(text)).join("\n\n");
    });
    if (summary) return { compaction: { summary, firstKeptEntryId, tokensBefore, details: { by: "lossless" } } };
    // Below the threshold there is nothing to summarise yet. After a failure pi compacts by itself.
    return summary === "" && isAutomatic ? { cancel: true } : undefined;
  });

  pi.on("session_shutdown", async (_event, ctx) => {
    await attempt(ctx, () => store(ctx));
    const late = new Promise((resolve) => setTimeout(resolve, SHUTDOWN_WAIT).unref());
    if (background) await Promise.race([background, late]);
    await bridge?.close();
    bridge = null;
  });

  pi.registerCommand("lcm", {
    description: "Memory: status, doctor, compact",
    handler: async (text, ctx) => {
      const done = await attempt(ctx, async () => {
        const params = { conversation: conversation(ctx), text, window: sizes(ctx).space };
        return await bridge.request("command/run", params, { lend: lender(ctx), timeout: COMPACT_WAIT });
      });
      if (done) ctx.ui.notify(done.text, "info");
    },
  });
}
