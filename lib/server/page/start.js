// ---- Keys, views, start

const is_narrow = () => matchMedia("(max-width: 50rem)").matches;

function show_sidebar(open) {
  ui.sidebar.hidden = ui.veil.hidden = !open;
  ui.menu.ariaExpanded = open;
}

function show_view() {
  ui.chat_view.hidden = ui.status_tab.ariaCurrent = status_open();
  ui.status_view.hidden = ui.chat_tab.ariaCurrent = !status_open();
  poll_status();
  follow();
}

function go_to_question() {
  if (status_open()) location.hash = "";
  show_view();
  fit_question();
  ui.question.focus();
}

function fit_question() {
  ui.question.style.height = "auto";
  ui.question.style.height = `${ui.question.scrollHeight}px`;
  follow();
}

function take_question_key(event) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) ask();
  else if (event.key === "ArrowUp" && ui.question.value === "" && !streams.has(current.id) && last_question(current)) edit(last_question(current));
  else return;
  event.preventDefault();
}

function action_for_key(event) {
  const held = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.altKey ? "Alt+" : "");
  if (held !== "") return { "Alt+KeyN": new_chat, "Ctrl+KeyK": go_to_question }[held + event.code];
  if (event.key === "Escape") return edited ? end_edit : streams.has(current.id) ? stop_answer : is_narrow() ? () => show_sidebar(false) : null;
  return event.target.closest("input, textarea, select") ? null : { "/": go_to_question, "?": () => ui.shortcuts.showModal() }[event.key];
}

function take_key_press(event) {
  const action = document.querySelector("dialog[open]") ? null : action_for_key(event);
  if (!action) return;
  event.preventDefault();
  action();
}

function connect_controls() {
  const clicks = { jump: scroll_to_end, cancel_edit: end_edit, new_chat, export_chats, import_chats: () => ui.import_file.click(), show_shortcuts: () => ui.shortcuts.showModal(),
    menu: () => show_sidebar(ui.sidebar.hidden), veil: () => show_sidebar(false), model_button: open_settings, open_settings, switch_theme,
    change_key: () => { ui.settings.close(); ask_key(); } };
  for (const [id, action] of Object.entries(clicks)) ui[id].onclick = () => action();
  ui.composer.onsubmit = (event) => { event.preventDefault(); streams.has(current.id) ? stop_answer() : ask(); };
  ui.question.onkeydown = take_question_key;
  ui.question.oninput = fit_question;
  ui.import_file.onchange = import_chats;
  ui.key_form.onsubmit = take_key;
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.onclick = ({ target }) => { if (target === dialog || target.classList.contains("close")) dialog.close(); };
  }
}

// An answer in progress is kept as far as it came, and not as one that failed.
function leave_page() {
  chats.filter((chat) => streams.has(chat.id)).forEach(save_chat);
  streams.clear();
}

build_settings();
save_settings();
load_chats();
connect_controls();
ui.scroller.onscroll = note_scrolling;
new ResizeObserver(follow).observe(ui.scroller);
document.onkeydown = take_key_press;
document.onvisibilitychange = poll_status;
window.onhashchange = show_view;
window.onpagehide = leave_page;
show_sidebar(!is_narrow());
select_chat(chats.find((chat) => chat.id === read("nvllm.current", "", "sessionStorage")) ?? empty_chat());
show_view();
find_models();
