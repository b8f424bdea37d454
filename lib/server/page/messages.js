// ---- Messages on the screen

const views = new WeakMap();  // by message
let edited = null;  // the question that is being edited

const last_question = (chat) => chat.messages.findLast((message) => message.role === "user");

function figures_line({ completion_tokens, tokens_per_s, first_token_ms, prompt_tokens, cached_tokens }) {
  return [completion_tokens > 0 && plural(completion_tokens, "token"), is_number(tokens_per_s) && `${tokens_per_s.toFixed(1)} tokens/s`,
    is_number(first_token_ms) && `first after ${duration(first_token_ms / 1000)}`, is_number(prompt_tokens) && `prompt ${count(prompt_tokens)}`,
    cached_tokens > 0 && `${count(cached_tokens)} of it cached`].filter(Boolean).join(" · ");
}

// Some models write their thoughts into the answer, between marks.
const thoughts_begin = "<think>";
const thoughts_end = "</think>";
const half_a_mark = /<(?:\/?(?:t(?:h(?:i(?:nk?)?)?)?)?)?$/;
// Blocks and pieces of code, in which a mark is only a word, and marks.
const code_or_mark = /^ {0,3}(`{3,}|~{3,})[^]*?(?:^ {0,3}\1[`~]*[ \t]*$|(?![^]))|`[^`\n]+`|<\/?think>/gm;

// [{ kind: "thoughts" or "text", text, at, is_open }]: the answer by turns; the last part is text, which may be empty. Where a
// template begins the thoughts, the answer has only their end.
function thoughts_in(content) {
  const parts = [];
  let from = 0;
  const add = (kind, begin, end, at, is_open = false) => {
    const text = content.slice(begin, end);
    if (text.trim() !== "") parts.push({ kind, text, at, is_open });
  };
  code_or_mark.lastIndex = 0;
  for (let found; (found = code_or_mark.exec(content));) {
    const after = code_or_mark.lastIndex;
    if (found[0] === thoughts_end && from === 0) {
      add("thoughts", 0, found.index, 0);
      from = after;
    } else if (found[0] === thoughts_begin) {
      const end = content.indexOf(thoughts_end, after);
      add("text", from, found.index, from);
      add("thoughts", after, end < 0 ? content.length : end, found.index, end < 0);
      from = end < 0 ? content.length : end + thoughts_end.length;
      code_or_mark.lastIndex = from;
    }
  }
  return [...parts, { kind: "text", text: content.slice(from), at: from }];
}

const answer_text = ({ content }) => thoughts_in(content).filter(({ kind }) => kind === "text").map(({ text }) => text).join("").trim();

// The same JSON with an indented line for each member. Not by way of its values: numbers keep all their digits. What is not
// JSON, or not yet, stays as it is.
function pretty_json(text) {
  if (attempt(() => JSON.parse(text)) === undefined) return text;
  let made = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    if ("}]".includes(token)) --depth;
    if ("{[".includes(token)) ++depth;
    made += "{[".includes(token) ? token + line() : "}]".includes(token) ? line() + token : token === "," ? token + line() : token === ":" ? ": " : token.replace(/^([{[])\s+/, "$1");
  }
  return made;
}

// What is folded away or not by itself, until the reader chooses.
class Fold {
  constructor(tag, ...children) {
    this.title = make("summary");
    this.title.onclick = () => { this.is_chosen_ = true; };
    this.node = make(tag, this.title, ...children);
  }

  set_open(is_open) {
    if (!this.is_chosen_) this.node.open = is_open;
  }
}

// Open while they are written, then folded.
class ThoughtsView {
  constructor() {
    this.body_ = make("div.text", { dir: "auto" });
    this.fold_ = new Fold("details.thoughts", this.body_);
    this.node = this.fold_.node;
    this.text_ = new GrowingText(this.body_);
  }

  show({ text, is_open }, seconds) {
    this.text_.show(text);
    this.fold_.title.textContent = is_open ? "Thinking…" : seconds >= 0.1 ? `Thought for ${duration(seconds)}` : "Thoughts";
    this.fold_.set_open(is_open);
    this.node.classList.toggle("live", is_open);
    if (is_open) this.body_.scrollTop = this.body_.scrollHeight;
  }
}

class TextView {
  constructor() {
    this.node = make("div.body.text", { dir: "auto" });
    this.text_ = new GrowingText(this.node);
  }

  show({ text }) {
    this.text_.show(text.trimStart());
  }
}

const most_open_lines = 12;

// A call of a tool, or the result of one: JSON or text, folded away when it is long.
class ToolView {
  constructor() {
    this.block_ = new CodeBlock("json");
    this.fold_ = new Fold("details.call", this.block_.node);
    this.node = this.fold_.node;
  }

  show(what, name, text) {
    if (text === this.text_ && name === this.name_) return;
    const shown = pretty_json(text);
    const is_raw = shown === text;
    const lines = shown.split("\n").length;
    if (is_raw && this.is_raw_) this.block_.grow(shown);  // arguments that are still written
    else this.block_.show(shown);
    Object.assign(this, { text_: text, name_: name, is_raw_: is_raw });
    this.fold_.title.replaceChildren(`${what} `, make("code", name || "a tool"), lines > most_open_lines ? make("span.small", `${lines} lines`) : "");
    this.fold_.set_open(lines <= most_open_lines);
  }
}

class MessageView {
  constructor(chat, message) {
    Object.assign(this, { chat_: chat, message_: message, note_: make("div"), foot_: make("div.foot"), parts_: [], calls_: [], call_list_: make("div") });
    this.body_ = message.role === "user" ? make("div.body", message.content, { dir: "auto" }) : make("div.parts");
    const label = { user: "You", assistant: "Answer", tool: "Result of a tool" }[message.role];
    this.node = make(`article.message.${message.role}`, { ariaLabel: label }, this.body_, this.call_list_, this.note_, this.foot_);
    views.set(message, this);
    this.update();
  }

  // Everything: when the message appears, and when its answer ends.
  update() {
    const is_live = this.stream_() !== undefined;
    this.update_text();
    this.body_.ariaLive = is_live ? "polite" : this.body_.ariaLive;
    this.body_.ariaBusy = is_live;
    this.foot_.hidden = is_live;
    this.foot_.replaceChildren(...this.actions_(), make("span", figures_line(this.message_.figures ?? {})));
  }

  // What changes with every token.
  update_text() {
    const { role, name, content, tool_calls } = this.message_;
    if (role === "assistant") this.update_parts_();
    const calls = role === "tool" ? [["Result of", name, content]] : (tool_calls ?? []).map((call) => ["Call of", call.name, call.arguments]);
    calls.forEach((call, index) => {
      if (!this.calls_[index]) this.call_list_.append((this.calls_[index] = new ToolView()).node);
      this.calls_[index].show(...call);
    });
    this.note_.replaceChildren(this.note_now_());
  }

  update_parts_() {
    const { content, reasoning = "", thought_s, tool_calls } = this.message_;
    const is_live = this.stream_() !== undefined;
    const parts = thoughts_in(is_live ? content.replace(half_a_mark, "") : content);
    if (reasoning.trim() !== "") parts.unshift({ kind: "thoughts", text: reasoning, at: "reasoning", is_open: content === "" && !tool_calls });
    // More text changes the kind of a part only at the answer's begin.
    if (this.parts_.length > parts.length || this.parts_.some((view, index) => view.kind !== parts[index].kind)) {
      this.body_.replaceChildren();
      this.parts_ = [];
    }
    parts.forEach((part, index) => {
      if (!this.parts_[index]) {
        const view = part.kind === "text" ? new TextView() : new ThoughtsView();
        this.parts_.push(Object.assign(view, { kind: part.kind }));
        this.body_.append(view.node);
      }
      this.parts_[index].show({ ...part, is_open: is_live && part.is_open }, thought_s?.[part.at]);
    });
  }

  stream_() {
    const stream = streams.get(this.chat_.id);
    return stream?.message === this.message_ ? stream : undefined;
  }

  // Below the text: how far the prompt has been read, what went wrong, or why the answer is no longer.
  note_now_() {
    const { role, ended, problem } = this.message_;
    if (role !== "assistant") return "";
    const stream = this.stream_();
    if (stream) return stream.first_at ? "" : this.progress_(stream.progress);
    if (problem) return this.problem_(problem);
    if (this.wants_results_()) return this.results_form_();
    const why = { stop: "", tool_calls: "", stopped: "Stopped.", undefined: "Interrupted: the page was closed while this was being written.",
      length: "Cut off at the most tokens allowed. Ask for the rest, or raise “Max tokens” in the settings." }[ended] ?? `Ended: ${ended}.`;
    return why && make("p.note", why);
  }

  wants_results_() {
    const { tool_calls } = this.message_;
    return tool_calls?.length > 0 && this.message_ === this.chat_.messages.at(-1);
  }

  // The page runs no tools: whoever reads it says what they gave.
  results_form_() {
    const { tool_calls } = this.message_;
    const fields = tool_calls.map(({ name }) => make("textarea", { ariaLabel: `Result of ${name}`, placeholder: `What ${name} gives`, spellcheck: false }));
    const send = (event) => {
      event.preventDefault();
      this.chat_.messages.push(...tool_calls.map(({ id, name }, index) => ({ role: "tool", tool_call_id: id, name, content: fields[index].value })));
      answer(this.chat_);
    };
    return make("form.results", { onsubmit: send }, ...fields, make("button.plain", tool_calls.length > 1 ? "Send results" : "Send result"));
  }

  progress_(progress) {
    if (!progress) return make("span.pulse", { role: "img", ariaLabel: "Waiting for the first token" });
    const { processed = 0, total = 0, cache = 0 } = progress;
    return make("div.note", `Reading the prompt: ${count(processed)} of ${count(total)} tokens${cache > 0 ? `, ${count(cache)} cached` : ""}`,
      make("progress", { max: Math.max(total, 1), value: processed, ariaLabel: "Prompt read" }));
  }

  problem_({ message, advice, status }) {
    return make("div.problem", { role: "alert" }, make("p", message), make("p.quiet", advice), make("button.plain", "Try again", { onclick: answer_again }),
      status === 401 ? make("button.plain", "Enter the key", { onclick: ask_key }) : null);
  }

  actions_() {
    const { content, role, problem } = this.message_;
    const is_last = this.message_ === this.chat_.messages.at(-1);
    const made = content === "" ? [] : [copy_button(() => content)];
    const add = (label, onclick) => made.push(make("button", label, { onclick }));
    this.node.classList.toggle("last", is_last);
    if (is_last && !problem) add(role === "assistant" ? "Regenerate" : "Answer", answer_again);
    if (this.message_ === last_question(this.chat_)) add("Edit", () => edit(this.message_));
    if (role === "user") add("Delete", () => delete_exchange(this.chat_, this.message_));
    return made;
  }
}

// The last question is edited where it was asked. Sending it drops the answer to the old one.
function edit(question) {
  stop_answer();
  edited = question;
  ui.question.value = question.content;
  ui.edit_note.hidden = false;
  ui.hint_text.hidden = true;
  go_to_question();
}

function end_edit() {
  edited = null;
  ui.question.value = "";
  ui.edit_note.hidden = true;
  ui.hint_text.hidden = false;
  fit_question();
}

let at_end = true;  // whether the reader follows the answer

function follow() {
  if (at_end) ui.scroller.scrollTop = ui.scroller.scrollHeight;
  ui.jump.hidden = at_end;
}

function scroll_to_end() {
  at_end = true;
  follow();
}

function note_scrolling() {
  at_end = ui.scroller.scrollHeight - ui.scroller.scrollTop - ui.scroller.clientHeight < 40;
  ui.jump.hidden = at_end;
}

function show_chat() {
  ui.messages.replaceChildren(...current.messages.map((message) => new MessageView(current, message).node));
  ui.greeting.hidden = current.messages.length > 0;
  if (document.activeElement === document.body && !is_narrow()) ui.question.focus();  // what had the focus is gone
  document.title = current.title ? `${current.title} – nanovllm` : "nanovllm";
  show_busy();
}

function show_busy() {
  const is_busy = streams.has(current.id);
  ui.send.title = ui.send.ariaLabel = is_busy ? "Stop" : "Send";
  ui.send_icon.setAttribute("d", is_busy ? "M6.5 6.5h7v7h-7z" : "M10 16V4.5M5 9.5l5-5 5 5");
  ui.live.textContent = "";
  follow();
}

// A question with all that came of it.
function delete_exchange(chat, question) {
  const before = [...chat.messages];
  const at = before.indexOf(question);
  const next = before.findIndex((message, index) => index > at && message.role === "user");
  const gone = chat.messages.splice(at, (next < 0 ? before.length : next) - at);
  if (gone.includes(streams.get(chat.id)?.message)) stop_answer();
  const show = () => {
    save_chat(chat);
    show_chat_list();
    if (chat === current) show_chat();
  };
  show();
  toast("Question and answer deleted.", () => { chat.messages = before; show(); });
}
