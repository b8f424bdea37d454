// ---- Messages on the screen

const views = new WeakMap();  // by message
const hint = ui.hint_text.textContent;
let edited = null;  // the question that is being edited

const last_question = (chat) => chat.messages.findLast((message) => message.role === "user");

function figures_line({ completion_tokens, tokens_per_s, first_token_ms, prompt_tokens, cached_tokens }) {
  return [completion_tokens > 0 && plural(completion_tokens, "token"), is_number(tokens_per_s) && `${tokens_per_s.toFixed(1)} tokens/s`,
    is_number(first_token_ms) && `first after ${duration(first_token_ms / 1000)}`, is_number(prompt_tokens) && `prompt ${count(prompt_tokens)}`,
    cached_tokens > 0 && `${count(cached_tokens)} of it cached`].filter(Boolean).join(" · ");
}

// Some models write their thoughts into the answer, between tags at its start.
function split_thoughts({ content, reasoning = "" }) {
  const [, thoughts, answer] = /^\s*<think>(.*?)(?:<\/think>(.*))?$/s.exec(content) ?? [null, "", content];
  return { thoughts: (reasoning + thoughts).trim(), answer: answer ?? "" };
}

class MessageView {
  constructor(chat, message) {
    Object.assign(this, { chat_: chat, message_: message, note_: make("div"), foot_: make("div.foot"), thoughts_: null });
    const is_user = message.role === "user";
    this.body_ = make(is_user ? "div.body" : "div.body.text", { dir: "auto" });
    this.node = make(`article.message.${message.role}`, { ariaLabel: is_user ? "You" : "Answer" }, this.body_, this.note_, this.foot_);
    this.text_ = new GrowingText(this.body_);
    views.set(message, this);
    this.update();
  }

  // Everything: when the message appears, and when its answer ends.
  update() {
    const is_live = this.stream_() !== undefined;
    if (this.message_.role === "user") this.body_.textContent = this.message_.content;
    else this.update_text();
    this.body_.ariaLive = is_live ? "polite" : this.body_.ariaLive;
    this.body_.ariaBusy = is_live;
    this.foot_.hidden = is_live;
    this.foot_.replaceChildren(...this.actions_(), make("span", figures_line(this.message_.figures ?? {})));
  }

  // What changes with every token.
  update_text() {
    const { thoughts, answer } = split_thoughts(this.message_);
    if (thoughts !== "") {
      if (!this.thoughts_) this.body_.before((this.thoughts_ = make("details", make("summary"), make("div"))));
      this.thoughts_.firstChild.textContent = this.stream_() && answer === "" ? "Thinking…" : "Thoughts";
      this.thoughts_.lastChild.textContent = thoughts;
    }
    this.text_.show(answer);
    this.note_.replaceChildren(this.note_now_());
  }

  stream_() {
    const stream = streams.get(this.chat_.id);
    return stream?.message === this.message_ ? stream : undefined;
  }

  // Below the text: how far the prompt has been read, what went wrong, or why the answer is no longer.
  note_now_() {
    const { ended, problem } = this.message_;
    const stream = this.stream_();
    if (stream) return stream.first_at ? "" : this.progress_(stream.progress);
    if (problem) return this.problem_(problem);
    const why = { stop: "", stopped: "Stopped.", undefined: "Interrupted: the page was closed while this was being written.",
      length: "Cut off at the most tokens allowed. Ask for the rest, or raise “Max tokens” in the settings." }[ended] ?? `Ended: ${ended}.`;
    return why && make("p.note", why);
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
    const made = content === "" ? [] : [copy_button(content)];
    const add = (label, onclick) => made.push(make("button", label, { onclick }));
    this.node.classList.toggle("last", is_last);
    if (is_last && !problem) add(role === "user" ? "Answer" : "Regenerate", answer_again);
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
  ui.hint_text.textContent = "Editing the last question. Esc leaves it as it was.";
  go_to_question();
}

function end_edit() {
  edited = null;
  ui.question.value = "";
  ui.hint_text.textContent = hint;
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

function delete_exchange(chat, question) {
  const before = [...chat.messages];
  const at = before.indexOf(question);
  const has_answer = before[at + 1]?.role === "assistant";
  if (has_answer && streams.get(chat.id)?.message === before[at + 1]) stop_answer();
  chat.messages.splice(at, has_answer ? 2 : 1);
  const show = () => {
    save_chat(chat);
    show_chat_list();
    if (chat === current) show_chat();
  };
  show();
  toast("Question and answer deleted.", () => { chat.messages = before; show(); });
}
