// ---- Conversations

const chat_prefix = "nvllm.chat.";
const most_chats = 200;  // and no more than fits into the browser's storage, which is about 5 MB

let chats = [];  // the latest first; the current one is among them once it has a message
let current = null;
const streams = new Map();  // by conversation: the answer that is being received

const are_texts = (...values) => values.every((value) => typeof value === "string");
const is_message = ({ role, content, reasoning = "", tool_calls = [], name = "", tool_call_id = "" }) => ["user", "assistant", "tool"].includes(role) &&
  are_texts(content, reasoning, name, tool_call_id) && tool_calls.every((call) => are_texts(call.id, call.name, call.arguments));

// What is stored or imported is not believed: what is no conversation gives null.
const checked_chat = (value) => attempt(() => {
  const { id, title, updated, messages } = value;
  if (!/^\w{1,64}$/.test(id) || messages.length === 0 || !messages.every(is_message)) return null;
  return { id, title: String(title || "Untitled").slice(0, 80), updated: Number(updated) || 0, messages };
}, null);

function load_chats() {
  const keys = attempt(() => Object.keys(localStorage), []).filter((key) => key.startsWith(chat_prefix));
  chats = keys.map((key) => checked_chat(read(key, null))).filter(Boolean).sort((a, b) => b.updated - a.updated);
}

function remove_chat(chat) {
  streams.get(chat.id)?.controller.abort();
  streams.delete(chat.id);
  chats = chats.filter((other) => other !== chat);
  write(chat_prefix + chat.id, null);
}

// Gives up the conversation that was longest untouched, but never one in use. False when there is none.
function make_room() {
  const oldest = chats.findLast((chat) => chat !== current && !streams.has(chat.id));
  if (!oldest) return false;
  remove_chat(oldest);
  toast(`“${oldest.title}” was removed to make room. Export keeps conversations.`);
  return true;
}

function save_chat(chat) {
  if (chat.messages.length === 0) return remove_chat(chat);
  if (!chats.includes(chat)) chats.push(chat);
  chats.sort((a, b) => b.updated - a.updated);
  while (chats.length > most_chats && make_room());
  while (!write(chat_prefix + chat.id, chat)) {
    if (!make_room()) return toast("The browser has no room for this conversation. Export it before you leave.");
  }
}

function export_chats() {
  const text = JSON.stringify({ format: "nvllm-chats", version: 1, chats }, null, 1);
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  make("a", { href, download: "nanovllm-chats.json" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

async function import_chats() {
  const text = await ui.import_file.files[0].text().catch(() => "");
  const found = attempt(() => JSON.parse(text).chats.map(checked_chat).filter(Boolean), []);
  ui.import_file.value = "";
  for (const chat of found) {
    if (chats.some((other) => other.id === chat.id)) chat.id = new_id();
    save_chat(chat);
  }
  show_chat_list();
  toast(found.length > 0 ? `${plural(found.length, "conversation")} imported.` : "No conversations in that file. It should be one that Export wrote.");
}

function show_chat_list() {
  const focused = Array.from(ui.chat_list.querySelectorAll("button")).indexOf(document.activeElement);
  ui.chat_list.replaceChildren(...chats.map((chat) => make(chat === current ? "li.here" : "li",
    make(streams.has(chat.id) ? "button.open.live" : "button.open", chat.title, { onclick: () => open_chat(chat), title: chat.title, ariaCurrent: chat === current }),
    make("button.remove", "×", { onclick: () => delete_chat(chat), ariaLabel: `Delete “${chat.title}”`, title: "Delete" }))));
  ui.chat_list.querySelectorAll("button")[focused]?.focus();
}

function select_chat(chat) {
  if (edited) end_edit();
  current = chat;
  write("nvllm.current", chat.id, "sessionStorage");
  if (is_narrow()) show_sidebar(false);
  show_chat_list();
  show_chat();
  scroll_to_end();
}

function open_chat(chat) {
  select_chat(chat);
  go_to_question();
}

const empty_chat = () => ({ id: new_id(), title: "", updated: 0, messages: [] });
const new_chat = () => open_chat(empty_chat());

function delete_chat(chat) {
  remove_chat(chat);
  if (chat === current) new_chat();
  else show_chat_list();
  toast("Conversation deleted.", () => { save_chat(chat); open_chat(chat); });
}
