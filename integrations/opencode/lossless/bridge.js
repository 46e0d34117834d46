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
 * Return the newest messages that fit, from a user's message on: what a host sends when the memory does not answer.
 * The newest turn stays whole whatever its size, so that calls keep their results.
 */
export function boundedMessages(messages, tokens, isStart = (message) => message.role === "user") {
  let left = tokens ?? Infinity;
  let start = messages.length;
  for (let end = messages.length; end > 0; ) {
    let first = end - 1;
    while (first > 0 && !isStart(messages[first])) first -= 1;
    left -= messages.slice(first, end).reduce((sum, message) => sum + estimateTokens(message), 0);
    if (left < 0 && start < messages.length) break;
    start = first;
    end = first;
  }
  return messages.slice(start);
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
 */
export class Bridge {
  constructor({ command, host, settings = {}, format = "openclaw", lends = null, log = console, environment = {} }) {
    this.command = Array.isArray(command) && command.length ? command : ["lcm"];
    this.host = host;
    this.settings = withoutSecrets(settings);
    this.format = format;
    this.lends = lends;
    this.log = log;
    this.environment = environment;
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
   * timeout  milliseconds after which the request is cancelled
   * again    send it once more if the process dies: true for methods that may be repeated (default: all but ingest)
   */
  async request(method, params = {}, { lend, signal, timeout = 60_000, again = method !== "ingest" } = {}) {
    try {
      return await this._request(method, params, { lend, signal, timeout });
    } catch (error) {
      if (!again || error.code !== "BRIDGE_ENDED" || signal?.aborted || this._closed) throw error;
      return await this._request(method, params, { lend, signal, timeout });
    }
  }

  /** End the process. It finishes what it is writing. */
  async close() {
    this._closed = true;
    const child = this._child;
    if (!child) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.stdin.end();
    const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(late);
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
    this._ready = this._start();
    try {
      return await this._ready;
    } catch (error) {
      this._ready = null;
      if (this._child) {
        // It runs, and cannot serve: the database is locked, or a setting is wrong.
        this._failed(error.message);
        this._child.stdin.end();
        this._child = null;
      }
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
    child.once("error", (error) => {
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
      timeout: 30_000,
    });
    this._failures = 0;
    this._why = null;
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
      this.log.error("lossless: the bridge sent a line that is not JSON.");
      return;
    }
    if (message.method === undefined) this._settle(message);
    else if (message.method === "event") this._report(message.params);
    else if (message.method === "cancel") this._answering.get(message.params?.id)?.abort();
    else if (message.method === "model/complete") void this._complete(child, message);
    else this._write(child, { id: message.id, error: { code: -32601, message: `no method ${message.method}` } });
  }

  _report({ level, message } = {}) {
    (level === "error" ? this.log.error : this.log.warn).call(this.log, `lossless: ${message}`);
  }

  _settle(message) {
    const waiting = this._pending.get(message.id);
    if (!waiting) return;
    this._pending.delete(message.id);
    if (message.error) {
      const { data = {}, message: text, code } = message.error;
      waiting.reject(new BridgeError(data.code ?? String(code), `lossless: ${text}`, data.hint));
    } else waiting.resolve(message.result);
  }

  async _complete(child, { id, params }) {
    const abort = new AbortController();
    this._answering.set(id, abort);
    try {
      const lend = this._lenders.get(params.request);
      if (!lend) throw new Error("the host lends no model now");
      const { text, model, cut } = await lend(params, abort.signal);
      this._write(child, { id, result: { text: text ?? "", ...(model ? { model } : {}), ...(cut ? { cut } : {}) } });
    } catch (error) {
      const status = Number.isInteger(error?.status) ? { status: error.status } : {};
      const message = String(error?.message ?? error).slice(0, 300);
      this._write(child, { id, error: { code: -32000, message, data: status } });
    } finally {
      this._answering.delete(id);
    }
  }

  _send(method, params, { lend, signal, timeout }) {
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
    const timer = setTimeout(
      () => giveUp("BRIDGE_TIMEOUT", `lossless: ${method} was not answered within ${timeout / 1000} s.`),
      timeout,
    );
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
    for (const abort of this._answering.values()) abort.abort();
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
