// Memory for OpenCode: every message is stored by lossless, and each request to the model is assembled from summaries and
// the newest messages. Plain JavaScript, no build step. OpenCode takes each export of this file for a plugin.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Bridge, boundedMessages, estimateTokens } from "./lossless/bridge.js";
import { fromStored, isBookkeeping, isFinished, toStored } from "./lossless/messages.js";

const PLACE = dirname(fileURLToPath(import.meta.url));
const TOOLS = ["lcm_grep", "lcm_describe", "lcm_expand_query"];
const MOST_REPLY = 32_000; // what OpenCode keeps free for a reply, at most
const DEFAULT_WINDOW = 128_000;
const DEFAULT_PROMPT = 12_000; // tokens of the system prompt and the tools, until they are known
const END_WAIT = 30_000;
const COMPACT_WAIT = 300_000;
const REPEAT_AFTER = 60_000;
const WITHOUT_SCREEN = ["run", "serve", "web", "acp"];

/** Read what `lcm install opencode` wrote beside this file: {"command": [...], "settings": {...}}. Both may be missing. */
function readConfig() {
  const path = join(PLACE, "lossless.json");
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {};
}

export const Lossless = async ({ client }) => {
  let bridge = null;
  let starts = 0;
  const parents = new Map();
  const windows = new Map();
  const toolSizes = new Map();
  const promptSizes = new Map();
  const reported = new Map();
  const running = new Set();
  const compacting = new Set();
  const compactions = new Map();
  const models = new Map();
  const partsSeen = new Map();
  const delivered = new Set();

  /** Show an error where the user sees it, the same one at most once a minute. */
  function report(error) {
    const text = String(error?.message ?? error);
    if (Date.now() - (reported.get(text) ?? 0) < REPEAT_AFTER) return;
    reported.set(text, Date.now());
    const message = text.startsWith("lossless") ? text : `lossless: ${text}`;
    if (process.argv.some((argument) => WITHOUT_SCREEN.includes(argument))) console.error(message);
    write("error", message);
    void client.tui.showToast({ body: { message, variant: "error" } }).catch(() => {});
  }

  /** Write a line to OpenCode's log. */
  function write(level, message) {
    void client.app.log({ body: { service: "lossless", level, message } }).catch(() => {});
  }

  function connected() {
    if (bridge) return bridge;
    const { command, settings } = readConfig();
    const log = { info: () => {}, warn: (text) => write("warn", text), error: report };
    bridge = new Bridge({ command, host: { name: "opencode" }, settings, log });
    return bridge;
  }

  /** Do something for memory's sake. Whatever fails is shown, and OpenCode goes on. */
  async function attempt(work) {
    try {
      return await work();
    } catch (error) {
      if (!["CANCELLED", "BRIDGE_CLOSED"].includes(error?.code)) report(error);
      return undefined;
    }
  }

  /** Do something that OpenCode does not wait for. Its end does. */
  function start(work) {
    const done = attempt(work).finally(() => running.delete(done));
    running.add(done);
    return done;
  }

  async function conversation(session) {
    if (!parents.has(session)) {
      const found = await client.session.get({ path: { id: session } }).catch(() => undefined);
      parents.set(session, found?.data?.parentID);
    }
    const parent = parents.get(session);
    return { key: `opencode:${session}`, session, ...(parent ? { parent: `opencode:${parent}` } : {}) };
  }

  /** What is left of a model's window for messages. */
  async function space({ providerID, modelID } = {}) {
    const name = `${providerID}/${modelID}`;
    if (!windows.has(name)) {
      const found = await client.config.providers().catch(() => undefined);
      for (const provider of found?.data?.providers ?? []) {
        for (const [id, model] of Object.entries(provider.models ?? {})) windows.set(`${provider.id}/${id}`, model.limit);
      }
    }
    const limit = windows.get(name);
    const window = limit?.context || DEFAULT_WINDOW;
    const tools = [...toolSizes.values()].reduce((sum, size) => sum + size, 0);
    const prompt = promptSizes.has(name) ? promptSizes.get(name) + tools : Math.min(DEFAULT_PROMPT, Math.floor(window / 4));
    const reply = Math.min(limit?.output || MOST_REPLY, MOST_REPLY, Math.floor(window / 4));
    return Math.max(window - reply - prompt, Math.floor(window / 8));
  }

  async function store(session, messages) {
    forgetDelivered();
    const fresh = messages.filter((message) => isFinished(message) && !delivered.has(message.info.id));
    const kept = fresh.filter((message) => !isBookkeeping(message)).flatMap(toStored);
    if (!kept.length) return;
    const params = { messages: kept.map(({ message }) => message), ids: kept.map(({ id }) => id) };
    await connected().request("ingest", { conversation: await conversation(session), ...params }, { again: true });
    for (const { info } of fresh) delivered.add(info.id);
  }

  /** A bridge that was started again may have another database. It recognises what it has. */
  function forgetDelivered() {
    if (bridge && bridge.starts !== starts) delivered.clear();
    starts = bridge?.starts ?? 0;
  }

  /** Store a reply that was finished just now. */
  async function storeReply(info) {
    const seen = partsSeen.get(info.id);
    partsSeen.delete(info.id);
    if (seen) return await store(info.sessionID, [{ info, parts: [...seen.values()] }]);
    const found = await client.session.message({ path: { id: info.sessionID, messageID: info.id } });
    if (found.data) await store(info.sessionID, [found.data]);
  }

  async function assemble(session, messages, model) {
    // What came before the newest prompt is stored by now.
    const start = Math.max(messages.findLastIndex(({ info }) => info.role === "user"), 0);
    const live = messages.slice(start).filter((message) => !isBookkeeping(message)).flatMap(toStored);
    const shown = await connected().request("assemble", {
      conversation: await conversation(session),
      messages: live.map(({ message }) => message),
      ids: live.map(({ id }) => id),
      window: await space(model),
      ...(model ? { model: `${model.providerID}/${model.modelID}` } : {}),
    });
    // Nothing is stored for this session, or the database does not answer: an event of the bridge says so.
    if (shown.reason?.startsWith("live")) return { messages: [], uncovered: 0 };
    return shown;
  }

  async function compact(session, model, force = false) {
    const params = { conversation: await conversation(session), window: await space(model), force };
    return await connected().request("compact", params, { timeout: COMPACT_WAIT });
  }

  /** Compact while the user reads, so that no turn waits for a summary. */
  function compactInBackground(session, model) {
    if (compactions.has(session)) return;
    const stored = Promise.allSettled([...running]);
    const done = start(async () => {
      await stored;
      await compact(session, model);
    });
    compactions.set(session, done);
    void done.finally(() => compactions.delete(session));
  }

  /** Return the messages of a request: what the memory shows, less what the user has undone. */
  async function request(session, messages) {
    const last = messages.findLast(({ info }) => info.role === "user") ?? messages.at(-1);
    const { model } = last.info;
    await store(session, messages);
    let shown = await assemble(session, messages, model);
    if (shown.uncovered && compactions.has(session)) {
      await compactions.get(session);
      shown = await assemble(session, messages, model);
    }
    if (shown.uncovered) {
      await compact(session, model, true);
      shown = await assemble(session, messages, model);
    }
    const held = new Set(messages.map(({ info }) => info.id));
    const first = [...held].sort()[0];
    const isUndone = (message) => {
      const id = message.opencode?.info?.id ?? message.opencode?.messageID;
      return id !== undefined && id >= first && !held.has(id);
    };
    return fromStored(shown.messages.filter((message) => !isUndone(message)), last);
  }

  return {
    async event({ event }) {
      const { info, part, sessionID } = event.properties ?? {};
      if (event.type === "session.created") parents.set(info.id, info.parentID);
      if (event.type === "message.updated" && info.role === "assistant") {
        if (isFinished({ info })) await start(() => storeReply(info));
        else if (!partsSeen.has(info.id)) partsSeen.set(info.id, new Map());
      }
      if (event.type === "message.part.updated") partsSeen.get(part.messageID)?.set(part.id, part);
      if (event.type === "session.idle") compactInBackground(sessionID, models.get(sessionID));
    },

    // A prompt is stored before its first request, after everything that came before it.
    async "chat.message"(_input, { message }) {
      models.set(message.sessionID, message.model);
    },

    async "chat.params"({ model }) {
      windows.set(`${model.providerID}/${model.id}`, model.limit);
    },

    async "experimental.chat.system.transform"({ model }, { system }) {
      promptSizes.set(`${model.providerID}/${model.id}`, estimateTokens(system));
    },

    async "tool.definition"({ toolID }, definition) {
      if (TOOLS.includes(toolID)) {
        await attempt(async () => {
          if (!connected().info) await bridge.request("status", {});
          const { description, inputSchema } = bridge.info.tools.find(({ name }) => name === toolID);
          Object.assign(definition, { description, jsonSchema: inputSchema });
        });
      }
      toolSizes.set(toolID, estimateTokens([definition.description, definition.jsonSchema]));
    },

    async "experimental.chat.messages.transform"(_input, { messages }) {
      const session = messages.find(({ info }) => info.sessionID)?.info.sessionID;
      if (!session) return;
      // OpenCode summarises its own messages: they only have to fit.
      const isCompaction = compacting.delete(session);
      const shown = isCompaction ? undefined : await attempt(() => request(session, messages));
      const model = messages.findLast(({ info }) => info.role === "user")?.info.model;
      const found = shown?.length
        ? shown
        : boundedMessages(messages, await space(model), ({ info }) => info.role);
      messages.splice(0, messages.length, ...found);
    },

    async "experimental.session.compacting"({ sessionID }, { context }) {
      compacting.add(sessionID);
      await attempt(async () => {
        const model = models.get(sessionID);
        await compact(sessionID, model, true);
        const { messages } = await assemble(sessionID, [], model);
        const texts = messages.map(({ content }) => (typeof content === "string" ? content : (content?.[0]?.text ?? "")));
        context.push(...texts.filter((text) => text.startsWith('<summary id="sum_')));
      });
    },

    tool: Object.fromEntries(
      TOOLS.map((name) => [
        name,
        {
          description: "Search or read earlier parts of this conversation.",
          args: {},
          async execute(args, { sessionID, abort }) {
            const params = { conversation: await conversation(sessionID), name, arguments: args };
            const done = await connected().request("tool/call", params, { signal: abort, timeout: COMPACT_WAIT });
            if (done.isError) throw new Error(done.text);
            return done.text;
          },
        },
      ]),
    ),

    async dispose() {
      const late = new Promise((resolve) => setTimeout(resolve, END_WAIT, true).unref());
      while (running.size && !(await Promise.race([Promise.allSettled([...running]).then(() => false), late])));
      await bridge?.close();
      bridge = null;
    },
  };
};
