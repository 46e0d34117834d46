// The client of `lcm bridge`: JSON-RPC 2.0 over the standard streams of a child process. No dependencies, no build step.
//
// Each plugin has its own copy of this file, because hosts install a directory. Change integrations/bridge.js and run
// `python scripts/copy_to_plugins.py`; a test compares the copies.

import { AsyncResource } from "node:async_hooks";
import { spawn } from "node:child_process";

export const PROTOCOLS = [1];

const SECRET = /api_?key(?!_?(?:env|cmd|openclaw)\b)|secret|passw|token\b|authorization|credential|bearer/i;
const TOKEN_CHARACTERS = 3;
const RETRY_AFTER = 1_000;
const LONGEST_RETRY = 60_000;
const MOST_STDERR = 400;
const END_WAIT = 10_000;
const START_WAIT = 15_000;
const START_AGAIN = 5_000; // after a start that failed
const TURN_WAIT = 10_000; // a turn waits for it: the bridge itself gives up a locked database after 3 s
const LATE_WAIT = 1_000; // once a request took too long, until the process answers again
const ENDINGS = new Set(["BRIDGE_ENDED", "DATABASE_MOVED"]); // the next process can do it

/** An error of the bridge: `code` is stable, `message` is for people and says what to do. */
export class BridgeError extends Error {
  constructor(code, message, hint = "") {
    super(hint ? `${message} ${hint}` : message);
    this.name = "BridgeError";
    this.code = code;
  }
}

/** Return settings without whatever looks like a secret, and without functions. */
export function withoutSecrets(value) {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (value === null || typeof value !== "object") return typeof value === "function" ? undefined : value;
  const kept = Object.entries(value).filter(([name, inner]) => !SECRET.test(name) && typeof inner !== "function");
  return Object.fromEntries(kept.map(([name, inner]) => [name, withoutSecrets(inner)]));
}

/** Return about how many tokens a message takes. Too many rather than too few. */
export function estimateTokens(message) {
  return Math.ceil(JSON.stringify(message ?? null).length / TOKEN_CHARACTERS) + 4;
}

/**
 * Return the newest messages that fit: what a host sends when the memory does not answer. They are whole turns, from a
 * user's message on. If the newest turn alone is too large, they are its prompt and its newest steps. A step is a reply
 * with the results of its calls; the newest is kept whatever its size.
 */
export function boundedMessages(messages, tokens, roleOf = (message) => message?.role) {
  const most = tokens ?? Infinity;
  const turns = divided(messages, (message) => roleOf(message) === "user");
  const kept = newest(turns, most);
  if (kept.length !== 1 || size(kept[0]) <= most) return kept.flat();
  const [prompt, ...steps] = divided(kept[0], (message) => roleOf(message) === "assistant");
  if (!steps.length) return prompt;
  return roleOf(prompt[0]) === "user"
    ? [...prompt, ...newest(steps, most - size(prompt)).flat()]
    : newest([prompt, ...steps], most).flat();
}

function size(messages) {
  return messages.reduce((sum, message) => sum + estimateTokens(message), 0);
}

/** Divide a list before each message that starts a part. */
function divided(messages, isStart) {
  const parts = [];
  for (const message of messages) {
    if (!parts.length || isStart(message)) parts.push([]);
    parts.at(-1).push(message);
  }
  return parts;
}

/** Return the newest parts that fit, and at least one. */
function newest(parts, tokens) {
  let left = tokens;
  let start = parts.length;
  while (start > 0 && ((left -= size(parts[start - 1])) >= 0 || start === parts.length)) start -= 1;
  return parts.slice(start);
}

/**
 * A connection to `lcm bridge`, started by the first request and started again after it died.
 *
 * command   the program with its arguments, e.g. ["/venv/bin/python", "-m", "lossless"]; default: ["lcm"]
 * host      {name, version}
 * settings  the plugin's settings; secrets are removed here
 * format    the format of messages: "openclaw" (default), "anthropic", "openai_chat", "openai_responses"
 * lends     the name of the model that the host lends, if it lends one (see `request`)
 * log       {info, warn, error}: functions of one text
 * environment  more variables for the process
 * turnWait  milliseconds that a request without a timeout of its own may take
 */
export class Bridge {
  constructor({ command, host, settings = {}, format = "openclaw", lends = null, log = console, environment = {}, turnWait = TURN_WAIT }) {
    this.command = Array.isArray(command) && command.length ? command : ["lcm"];
    this.host = host;
    this.settings = withoutSecrets(settings);
    this.format = format;
    this.lends = lends;
    this.log = log;
    this.environment = environment;
    this.turnWait = turnWait;
    this.info = null;
    this._child = null;
    this._ready = null;
    this._number = 0;
    this._pending = new Map();
    this._lenders = new Map();
    this._answering = new Map();
    this._failures = 0;
    this._retryAt = 0;
    this._closed = false;
    /** How many processes were started: what was delivered to one may be unknown to the next. */
    this.starts = 0;
    this._isLate = false;
    this._stderr = "";
  }

  /** The id of the process, if one runs. */
  get pid() {
    return this._child?.pid ?? null;
  }

  /**
   * Send a request and return its result.
   *
   * lend     async ({system, prompt, maxTokens, model?, timeoutMs}, signal) => ({text, model?, cut?}): the host's model,
   *          for as long as this request runs. `params.lends` is set accordingly.
   * signal   an AbortSignal that cancels the request
   * timeout  milliseconds after which the request is cancelled; default: as long as a turn may wait
   * again    send it once more if the process dies: true for methods that may be repeated (default: all but ingest)
   */
  async request(method, params = {}, { lend, signal, timeout, again = method !== "ingest" } = {}) {
    try {
      return await this._request(method, params, { lend, signal, timeout });
    } catch (error) {
      if (!again || !ENDINGS.has(error.code) || signal?.aborted || this._closed) throw error;
      return await this._request(method, params, { lend, signal, timeout });
    }
  }

  /** End the process. It finishes what it is writing. */
  async close() {
    this._closed = true;
    const child = this._child;
    if (!child) return;
    await this._end(child);
  }

  /** End a process that finishes what it is writing, by force if that takes too long. */
  async _end(child) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.stdin.end();
    const late = setTimeout(() => child.kill("SIGKILL"), END_WAIT);
    await ended;
    clearTimeout(late);
  }

  /** Use a process no more, and have the next request start another. */
  _retire(child, why) {
    if (this._child !== child) return;
    this._child = null;
    this._ready = null;
    this._failed(why);
    void this._end(child);
  }

  async _request(method, params, { lend, signal, timeout }) {
    if (this._closed) throw new BridgeError("BRIDGE_CLOSED", "lossless: the bridge is closed.");
    signal?.throwIfAborted();
    await this._started();
    return await this._send(method, lend ? { ...params, lends: true } : params, { lend, signal, timeout });
  }

  async _started() {
    if (this._ready) return await this._ready;
    const wait = this._retryAt - Date.now();
    if (wait > 0) {
      throw new BridgeError("BRIDGE_WAITING", `lossless: ${this._why ?? "the bridge ended"} It is started again soon.`);
    }
    const ready = this._start();
    this._ready = ready;
    const child = this._child;
    try {
      return await ready;
    } catch (error) {
      // It may run, and cannot serve: the database is locked, or a setting is wrong.
      if (child) this._retire(child, error.message);
      // A turn has many requests: not each of them starts a process that fails in the same way.
      if (error.code !== "BRIDGE_ENDED") this._retryAt = Math.max(this._retryAt, Date.now() + START_AGAIN);
      if (this._ready === ready) this._ready = null;
      throw error;
    }
  }

  async _start() {
    const [program, ...rest] = this.command;
    const child = spawn(program, [...rest, "bridge"], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, ...this.environment },
      windowsHide: true,
    });
    this._child = child;
    this._isLate = false;
    this.starts += 1;
    child.on("error", (error) => {
      const reason = error.code === "ENOENT" ? "there is no such program" : error.message;
      const hint = "Run `lcm install` for this host again, or set `command` in the plugin's settings.";
      this._ended(child, new BridgeError("BRIDGE_MISSING", `lossless: ${program} cannot be started: ${reason}.`, hint));
    });
    child.once("exit", (code, signal) => {
      const said = this._stderr.trim().split("\n").at(-1) ?? "";
      const why = `lossless: the bridge ended (${signal ?? `status ${code}`})${said ? `: ${said}` : ""}.`;
      this._ended(child, new BridgeError("BRIDGE_ENDED", why));
    });
    child.stdin.on("error", () => {}); // the exit says why
    this._read(child);
    // The process must not keep a command line program of the host alive.
    child.unref();
    this._hold(child, false);
    const params = { protocols: PROTOCOLS, host: this.host, settings: this.settings, format: this.format };
    this.info = await this._send("initialize", this.lends ? { ...params, lends: this.lends } : params, {
      timeout: START_WAIT,
    });
    this._failures = 0;
    this._why = null;
    if (this.starts === 1) for (const note of this.info.notes ?? []) this.log.warn(`lossless: ${note}`);
    return this.info;
  }

  _read(child) {
    let rest = [];
    child.stdout.on("data", (chunk) => {
      let from = 0;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
        rest.push(chunk.subarray(from, at));
        this._take(child, Buffer.concat(rest).toString("utf8"));
        rest = [];
        from = at + 1;
      }
      if (from < chunk.length) rest.push(chunk.subarray(from));
    });
    child.stderr.on("data", (chunk) => {
      this._stderr = (this._stderr + chunk.toString("utf8")).slice(-MOST_STDERR);
    });
  }

  _take(child, line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      message = null;
    }
    if (message === null || typeof message !== "object") {
      this.log.error("lossless: the bridge sent a line that is not a message.");
      return;
    }
    if (message.method === undefined) this._settle(child, message);
    else if (message.method === "event") this._report(message.params ?? {});
    else if (message.method === "cancel") this._answering.get(child)?.get(message.params?.id)?.abort();
    else if (message.method === "model/complete") void this._complete(child, message);
    else this._write(child, { id: message.id, error: { code: -32601, message: `no method ${message.method}` } });
  }

  _report({ level, message }) {
    (level === "error" ? this.log.error : this.log.warn).call(this.log, `lossless: ${message}`);
  }

  _settle(child, message) {
    if (child === this._child) this._isLate = false;
    const waiting = this._pending.get(message.id);
    if (!waiting || waiting.child !== child) return;
    this._pending.delete(message.id);
    if (!message.error) return waiting.resolve(message.result);
    const { data, message: text, code: number } = message.error;
    const code = data?.code ?? String(number);
    // Whoever cancels a request here does not wait for it: the process is ending.
    const error = new BridgeError(code === "CANCELLED" ? "BRIDGE_ENDED" : code, `lossless: ${text}`, data?.hint);
    if (code === "DATABASE_MOVED") this._retire(child, error.message);
    waiting.reject(error);
  }

  async _complete(child, { id, params }) {
    const abort = new AbortController();
    const answering = this._answering.get(child) ?? new Map();
    this._answering.set(child, answering.set(id, abort));
    try {
      const lend = this._lenders.get(params?.request);
      if (!lend) throw new Error("the host lends no model now");
      const { text, model, cut } = await lend(params, abort.signal);
      this._write(child, { id, result: { text: text ?? "", ...(model ? { model } : {}), ...(cut ? { cut } : {}) } });
    } catch (error) {
      const status = Number.isInteger(error?.status) ? { status: error.status } : {};
      const message = String(error?.message ?? error).slice(0, 300);
      this._write(child, { id, error: { code: -32000, message, data: status } });
    } finally {
      answering.delete(id);
    }
  }

  _send(method, params, { lend, signal, timeout = Math.min(this.turnWait, this._isLate ? LATE_WAIT : Infinity) }) {
    const child = this._child;
    const id = ++this._number;
    // In the caller's async context: hosts lend their model to the work that asked for it, and to no other.
    if (lend) this._lenders.set(id, AsyncResource.bind(lend));
    const answer = new Promise((resolve, reject) => {
      this._pending.set(id, { resolve, reject, child });
      this._hold(child, true);
      this._write(child, { id, method, params });
    });
    const giveUp = (code, message) => {
      this._write(child, { method: "cancel", params: { id } });
      this._pending.get(id)?.reject(new BridgeError(code, message));
      this._pending.delete(id);
    };
    const timer = setTimeout(() => {
      if (child === this._child) this._isLate = true;
      giveUp("BRIDGE_TIMEOUT", `lossless: ${method} was not answered within ${timeout / 1000} s.`);
    }, timeout);
    const aborted = () => giveUp("CANCELLED", `lossless: ${method} was cancelled.`);
    signal?.addEventListener("abort", aborted, { once: true });
    return answer.finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
      this._lenders.delete(id);
      if (this._pending.size === 0) this._hold(child, false);
    });
  }

  _write(child, message) {
    if (child.stdin.writable) child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  /** Let the process keep the host alive while a request waits, and not otherwise. */
  _hold(child, held) {
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.[held ? "ref" : "unref"]?.();
  }

  _ended(child, error) {
    if (this._child === child) {
      this._child = null;
      this._ready = null;
      if (!this._closed) this._failed(error.message);
    }
    for (const abort of this._answering.get(child)?.values() ?? []) abort.abort();
    this._answering.delete(child);
    for (const [id, waiting] of this._pending) {
      if (waiting.child !== child) continue;
      this._pending.delete(id);
      waiting.reject(error);
    }
  }

  /** The first end is followed by a start at once; a process that keeps ending is started ever more rarely. */
  _failed(why) {
    this._why = why.replace(/^lossless: /, "");
    const delay = this._failures === 0 ? 0 : Math.min(RETRY_AFTER * 2 ** (this._failures - 1), LONGEST_RETRY);
    this._failures += 1;
    this._retryAt = Date.now() + delay;
    if (this._why) this.log.error(`lossless: ${this._why}`);
  }
}
