// OpenCode's messages as lossless stores them, and back.
//
// A message of OpenCode is {info, parts}, and a part of type "tool" holds a call and its result. Stored are pi's messages: one
// for the message itself, and one for each result. Everything that has no place in them is kept in the field `opencode`.

const STOPS = { stop: "stop", length: "length", "tool-calls": "toolUse" };
const CONTENT = new Set(["text", "reasoning", "tool", "file"]);
const DONE = new Set(["completed", "error"]);

/** Tell whether OpenCode itself wrote a message to compact a session: lossless does not need it. */
export function isBookkeeping({ info, parts }) {
  return info.summary === true || parts.some((part) => part.type === "compaction");
}

/** Tell whether nothing will be added to a message any more. */
export function isFinished({ info }) {
  return info.role === "user" || Boolean(info.time?.completed || info.error);
}

function picture(part) {
  const found = /^data:(image\/[^;,]+);base64,(.*)$/s.exec(part.url ?? "");
  return found && { type: "image", mimeType: found[1], data: found[2] };
}

function isContent(part) {
  return CONTENT.has(part.type) && !part.ignored && (part.type !== "file" || Boolean(picture(part)));
}

function asBlock(part) {
  if (part.type === "tool") {
    const { callID, tool, state, ...opencode } = part;
    // The rest of the state is for the screen, and repeats the output.
    const kept = { ...opencode, state: { time: state.time } };
    return { type: "toolCall", id: callID, name: tool, arguments: state.input ?? {}, opencode: kept };
  }
  if (part.type === "file") {
    const { url, ...opencode } = part;
    return { ...picture(part), opencode };
  }
  const { text, ...opencode } = part;
  return part.type === "text" ? { type: "text", text, opencode } : { type: "thinking", thinking: text, opencode };
}

function asResult(info, { callID, tool, state }) {
  const isError = state.status === "error";
  const pictures = (state.attachments ?? []).map(picture).filter(Boolean);
  return {
    role: "toolResult",
    toolCallId: callID,
    toolName: tool,
    content: [{ type: "text", text: String((isError ? state.error : state.output) ?? "") }, ...pictures],
    isError,
    timestamp: state.time?.end ?? info.time.created,
    opencode: { messageID: info.id, ...(state.attachments ? { attachments: state.attachments } : {}) },
  };
}

/** Return what is stored for a message: [{id, message}, ...]. */
export function toStored({ info, parts }) {
  const { summary, ...kept } = info; // the differences of files, which OpenCode adds to a prompt later
  const aside = parts.flatMap((part, at) => (isContent(part) ? [] : [[at, part]]));
  const message = {
    role: info.role,
    content: parts.filter(isContent).map(asBlock),
    timestamp: info.time.created,
    opencode: { info: kept, aside },
  };
  if (info.role === "assistant") message.stopReason = info.error ? "error" : (STOPS[info.finish] ?? "stop");
  const done = parts.filter((part) => part.type === "tool" && DONE.has(part.state?.status));
  const results = done.map((part) => ({ id: `${info.id}:${part.callID}`, message: asResult(info, part) }));
  return [{ id: info.id, message }, ...results];
}

function asPart(block) {
  const { opencode = {} } = block;
  if (block.type === "text") return { ...opencode, type: "text", text: block.text };
  if (block.type === "thinking") return { ...opencode, type: "reasoning", text: block.thinking };
  if (block.type === "image") return { ...opencode, type: "file", url: `data:${block.mimeType};base64,${block.data}` };
  if (block.type !== "toolCall") return undefined;
  const missing = { status: "error", error: "[The result is missing.]", time: { start: 0, end: 0 } };
  const state = { ...opencode.state, ...missing, input: block.arguments };
  return { ...opencode, type: "tool", callID: block.id, tool: block.name, state };
}

function answer(part, message) {
  const text = message.content.map((block) => block.text ?? "").join("");
  const { input, time } = part.state;
  const start = { input, time: { start: time?.start ?? 0, end: message.timestamp ?? 0 } };
  if (message.isError) part.state = { ...start, status: "error", error: text };
  else {
    const { attachments } = message.opencode ?? {};
    const more = attachments ? { attachments } : {};
    part.state = { ...start, status: "completed", output: text, title: "", metadata: {}, ...more };
  }
}

/** Return assembled messages as OpenCode's. What lossless wrote itself becomes a message like `last`, the newest prompt. */
export function fromStored(messages, last) {
  const shown = [];
  const calls = new Map();
  for (const message of messages) {
    if (message.role === "toolResult" && calls.has(message.toolCallId)) answer(calls.get(message.toolCallId), message);
    else if (message.role === "user" || message.role === "assistant") {
      const whole = message.opencode?.info ? restored(message) : invented(message, last, shown.length);
      for (const part of whole.parts) if (part.type === "tool") calls.set(part.callID, part);
      shown.push(whole);
    }
  }
  return shown;
}

function restored(message) {
  const { info, aside } = message.opencode;
  const parts = blocks(message).map(asPart).filter(Boolean);
  for (const [at, part] of aside ?? []) parts.splice(Math.min(at, parts.length), 0, part);
  return { info, parts };
}

function invented(message, last, place) {
  const { sessionID, agent, model } = last.info;
  const id = `msg_lossless${String(place).padStart(6, "0")}`;
  const text = blocks(message).map((block) => block.text ?? "").join("");
  const parts = [{ id: `prt_lossless${place}`, messageID: id, sessionID, type: "text", text, synthetic: true }];
  const time = { created: last.info.time.created };
  if (message.role === "user") return { info: { id, sessionID, role: "user", time, agent, model }, parts };
  const tokens = { input: 0, output: 0, reasoning: 0, cache: { read: 0, write: 0 } };
  const by = { ...model, mode: agent, agent, parentID: last.info.id, path: { cwd: "", root: "" }, cost: 0, tokens };
  const ended = { time: { ...time, completed: time.created }, finish: "stop" };
  return { info: { id, sessionID, role: "assistant", ...by, ...ended }, parts };
}

function blocks({ content }) {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}
