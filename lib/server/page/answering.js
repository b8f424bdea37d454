// ---- Asking and answering

// Questions that got no answer are joined with the next: many chat templates want roles to alternate. Calls of tools are told
// when their results are.
function history_of(chat) {
  const told = settings.system ? [{ role: "system", content: settings.system }] : [];
  chat.messages.forEach((message, index) => {
    const { role, name, tool_call_id, tool_calls } = message;
    const content = role === "assistant" ? answer_text(message) : message.content;
    const last = told.at(-1);
    if (role === "tool") told.push({ role, tool_call_id, name, content });
    else if (tool_calls && chat.messages[index + 1]?.role === "tool") told.push({ role, content, tool_calls: tool_calls.map(({ id, ...called }) => ({ id, type: "function", function: called })) });
    else if (content !== "" && last?.role === role && !last.tool_calls) last.content += `\n\n${content}`;
    else if (content !== "") told.push({ role, content });
  });
  return told;
}

function ask() {
  const content = ui.question.value.trim();
  if (content === "" || streams.has(current.id)) return;
  if (edited) current.messages.splice(current.messages.indexOf(edited));
  end_edit();
  current.messages.push({ role: "user", content });
  current.title ||= content.replace(/\s+/g, " ").slice(0, 60);
  answer(current);
}

function answer_again() {
  if (streams.has(current.id)) return;
  if (current.messages.at(-1)?.role === "assistant") current.messages.pop();
  if (current.messages.length > 0) answer(current);
}

const stop_answer = () => streams.get(current.id)?.controller.abort();

async function answer(chat) {
  const body = JSON.stringify({ model: chosen_model(), messages: history_of(chat), stream: true, stream_options: { include_usage: true }, return_progress: true, ...sampling() });
  const message = { role: "assistant", content: "" };
  const stream = { message, controller: new AbortController(), sent_at: performance.now(), pieces: 0, looked_at: 0 };
  streams.set(chat.id, stream);
  chat.messages.push(message);
  chat.updated = Date.now();
  save_chat(chat);
  select_chat(chat);
  ui.announcer.textContent = "The answer is being written.";
  await receive(chat, stream, body);
  finish_answer(chat, stream);
}

async function receive(chat, stream, body) {
  const { signal } = stream.controller;
  try {
    for await (const event of events_of(await ask_server("v1/chat/completions", { method: "POST", body, signal }))) {
      take_event(stream, event);
      show_soon(chat, stream);
    }
    stream.message.ended = stream.finish ?? "stop";
  } catch (problem) {
    stream.message.ended = signal.aborted ? "stopped" : "error";
    if (signal.aborted) return;
    const { message, advice = "Reload the page and try again.", status = null } = problem;
    stream.message.problem = { message, advice, status };
    if (status === null) find_models();
  }
}

function take_event(stream, { error, prompt_progress, usage, timings, choices }) {
  if (error) throw reported(error, Number(error.code) || 500);
  const { finish_reason, delta: { content, reasoning_content, reasoning, tool_calls } = {} } = choices?.[0] ?? {};
  const thought = reasoning_content ?? reasoning;
  stream.progress = prompt_progress ?? stream.progress;
  stream.usage = usage ?? stream.usage;
  stream.timings = timings ?? stream.timings;
  stream.finish = finish_reason ?? stream.finish;
  if (!content && !thought && !tool_calls?.length) return;
  stream.last_at = performance.now();
  stream.first_at ??= stream.last_at;
  ++stream.pieces;
  stream.message.content += content ?? "";
  if (thought) stream.message.reasoning = (stream.message.reasoning ?? "") + thought;
  for (const call of tool_calls ?? []) take_call(stream.message, call);
  time_thoughts(stream, Boolean(thought), Boolean(content || tool_calls?.length));
}

// The name of a call comes first, its arguments follow in pieces.
function take_call(message, { index = 0, id, function: { name, arguments: piece } = {} }) {
  message.tool_calls ??= [];
  while (message.tool_calls.length <= Math.min(index, 1000)) message.tool_calls.push({ id: "", name: "", arguments: "" });
  const call = message.tool_calls[index];
  if (!call) return;
  call.id ||= id ?? "";
  call.name ||= name ?? "";
  call.arguments += piece ?? "";
}

// How long the model thought, by the place where the thoughts begin, as thoughts_in() names it.
function time_thoughts(stream, is_thought, is_more) {
  if (is_thought) stream.thinking ??= { at: "reasoning", since: stream.last_at };
  if (!is_more) return;
  if (stream.thinking?.at === "reasoning") end_thoughts(stream);
  const { content } = stream.message;
  for (;;) {
    const mark = stream.thinking ? thoughts_end : thoughts_begin;
    const at = content.indexOf(mark, stream.looked_at);
    if (at < 0) break;
    stream.looked_at = at + mark.length;
    if (stream.thinking) end_thoughts(stream);
    else stream.thinking = { at, since: stream.last_at };
  }
  stream.looked_at = Math.max(stream.looked_at, content.length - thoughts_end.length + 1);  // half of a mark may be there
}

function end_thoughts(stream) {
  (stream.message.thought_s ??= {})[stream.thinking.at] = (stream.last_at - stream.thinking.since) / 1000;
  stream.thinking = null;
}

// Tokens are counted by the server; until it says how many, a piece of the stream stands for one. A rate is the server's, if it
// tells one; over less than this, tokens that came at once would seem to be made at once.
const least_rate_s = 0.2;

function figures_of({ usage, timings, pieces, sent_at, first_at, last_at }) {
  const tokens = usage?.completion_tokens ?? pieces;
  const seconds = (last_at - first_at) / 1000;
  return { completion_tokens: tokens, tokens_per_s: timings?.predicted_per_second ?? (tokens > 1 && seconds >= least_rate_s ? (tokens - 1) / seconds : undefined),
    first_token_ms: first_at && first_at - sent_at, prompt_tokens: usage?.prompt_tokens, cached_tokens: usage?.prompt_tokens_details?.cached_tokens };
}

// At most once a frame on the screen, and a few times a second in storage, however fast tokens come.
function show_soon(chat, stream) {
  const is_current = () => streams.get(chat.id) === stream;
  stream.save_timer ||= setTimeout(() => { stream.save_timer = 0; if (is_current()) save_chat(chat); }, 400);
  stream.frame ||= requestAnimationFrame(() => {
    stream.frame = 0;
    if (chat !== current || !is_current()) return;
    views.get(stream.message).update_text();
    ui.live.textContent = stream.first_at ? figures_line(figures_of({ ...stream, usage: null })) : "";
    follow();
  });
}

function finish_answer(chat, stream) {
  stream.message.figures = figures_of(stream);
  if (stream.thinking) end_thoughts(stream);
  if (streams.get(chat.id) !== stream) return;
  streams.delete(chat.id);
  save_chat(chat);
  show_chat_list();
  if (chat !== current) return;
  views.get(stream.message).update();
  show_busy();
  ui.announcer.textContent = `The answer has ended: ${plural(stream.message.figures.completion_tokens, "token")}.`;
}
