// The model of OpenClaw, lent to the memory for its summaries. Its keys stay with the host.

/** Return the host's model as a function that answers `model/complete`. */
export function lender(llm, log) {
  if (typeof llm?.complete !== "function") return undefined;
  return async ({ system, prompt, maxTokens, temperature, model }, signal) => {
    const request = {
      messages: [{ role: "user", content: prompt }],
      systemPrompt: system,
      maxTokens,
      signal,
      purpose: "lossless summary",
      ...(temperature === undefined ? {} : { temperature }),
    };
    const reply = await completed(llm, request, model, log).catch((error) => {
      if (!signal?.aborted) log.warn(`lossless: OpenClaw's model did not write a summary: ${error?.message ?? error}`);
      throw error;
    });
    const name = reply.provider && reply.model ? `${reply.provider}/${reply.model}` : reply.model;
    return { text: reply.text, model: name, cut: reply.stopReason === "length" };
  };
}

/** Ask for a named model only where the operator allows it (llm.allowModelOverride); else for the agent's own. */
async function completed(llm, request, model, log) {
  if (!model) return await llm.complete(request);
  try {
    return await llm.complete({ ...request, model });
  } catch (error) {
    if (request.signal?.aborted) throw error;
    log.warn(`lossless: OpenClaw does not lend ${model}; its own model is asked. See plugins.entries.lossless.llm.`);
    return await llm.complete(request);
  }
}
