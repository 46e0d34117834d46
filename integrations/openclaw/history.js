// Read OpenClaw's own transcripts, which are in SQLite, page by page, and hand what is new to the memory.

const PAGE = { maxMessages: 500, maxBytes: 4_000_000 };
const LARGEST_PAGE = 64 * 1024 * 1024;
const MOST_PAGES = 10_000;

export class History {
  constructor(memory) {
    this._memory = memory;
  }

  /** Deliver the entries after the last one that was delivered; returns how many were stored. */
  async read({ sessionKey, sessionId, sessionTarget, agentId }) {
    const target = scope({ sessionKey, sessionId, agentId, ...sessionTarget });
    const transcripts = await this._transcripts();
    if (!transcripts || !target.sessionId || !target.sessionKey) return { stored: 0, reason: "no transcript" };
    const conversation = this._memory.conversation(target);
    const record = `openclaw:${target.sessionId}`;
    let { cursor } = await this._deliver({ conversation, record, entries: [] });
    let stored = 0;
    let limits = PAGE;
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const page = await transcripts.readSessionTranscriptVisibleMessageDelta({
        ...target,
        ...limits,
        ...(cursor ? { cursor } : {}),
      });
      if (page.kind === "reset" && page.cursor !== cursor) {
        cursor = page.cursor; // rewritten: from the start, and what is known is recognised
        continue;
      }
      if (page.kind !== "page") return { stored, reason: page.reason ?? page.kind };
      if (page.requiredBytes > limits.maxBytes) {
        if (page.requiredBytes > LARGEST_PAGE) return { stored, reason: "an entry is too large" };
        limits = { ...PAGE, maxBytes: page.requiredBytes };
        continue;
      }
      if (page.entries.length > 0 || page.cursor !== cursor) {
        const entries = page.entries.map(({ entryId, message }) => ({ id: entryId, message }));
        stored += (await this._deliver({ conversation, record, entries, cursor: page.cursor })).stored;
      }
      cursor = page.cursor;
      limits = PAGE;
      if (!page.hasMore) break;
    }
    return { stored, reason: "" };
  }

  async _deliver(params) {
    return await this._memory.bridge.request("bootstrap", params);
  }

  /** The host's module, which a host before 2026.9 does not have. */
  async _transcripts() {
    try {
      const found = await import("openclaw/plugin-sdk/session-transcript-runtime");
      return typeof found.readSessionTranscriptVisibleMessageDelta === "function" ? found : null;
    } catch (error) {
      if (!this._warned) this._memory.log.warn(`lossless: OpenClaw's transcripts cannot be read: ${error.message}`);
      this._warned = true;
      return null;
    }
  }
}

function scope({ agentId, sessionKey, sessionId, storePath, threadId }) {
  const named = agentId ?? /^agent:([^:]+):/.exec(sessionKey ?? "")?.[1];
  return {
    ...(named ? { agentId: named } : {}),
    sessionKey,
    sessionId,
    ...(storePath ? { storePath } : {}),
    ...(threadId === undefined ? {} : { threadId }),
  };
}
