// ---- Settings

// Name, label, least, most, step. They are sent only when they are set: the rest is the server's to choose.
const numbers = [
  ["temperature", "Temperature", 0, 2, "any"],
  ["max_tokens", "Max tokens", 1, "", 1],
  ["top_p", "Top p", 0, 1, "any"],
  ["top_k", "Top k", -1, "", 1],
  ["min_p", "Min p", 0, 1, "any"],
  ["repetition_penalty", "Repetition penalty", 0.01, 2, "any"],
  ["seed", "Seed", "", "", 1],
];
const servers_choice = "server's choice";
let settings = { ...read("nvllm.settings", {}) };

function build_settings() {
  for (const [name, label, min, max, step] of numbers) {
    ui.defaults_note.before(make("label.field", label, make("input", { type: "number", placeholder: servers_choice, name, min, max, step })));
  }
  for (const input of ui.settings.querySelectorAll("[name]")) {
    input.value = settings[input.name] ?? "";
    input.oninput = () => take_setting(input);
  }
}

// The values in force where a field is empty, as the server tells them of the chosen model.
async function show_defaults() {
  const { models: told = [], ...first } = await ask_server("nvllm/status").then((response) => response.json()).catch(() => ({}));
  const model = told.find(({ name, names = [name] }) => names.includes(chosen_model())) ?? (told.length > 1 ? {} : first);
  const defaults = model.sampling_defaults;
  ui.defaults_note.hidden = !defaults;
  const words = { top_k: { 0: "0 (all)" }, max_tokens: { null: "all there is room for" }, seed: { undefined: "a new one each time" } };
  for (const [name] of numbers) {
    const value = defaults?.[name];
    ui.settings.querySelector(`[name=${name}]`).placeholder = !defaults ? servers_choice : words[name]?.[value] ?? String(value ?? servers_choice);
  }
}

function open_settings() {
  ui.settings.showModal();
  show_defaults();
}

const is_tool_list = (text) => text.trim() === "" || Array.isArray(attempt(() => JSON.parse(text)));

function take_setting(input) {
  if (input.name === "tools") input.setCustomValidity(is_tool_list(input.value) ? "" : "A JSON list is wanted, such as [{\"type\": \"function\", …}].");
  if (!input.checkValidity()) return;
  settings[input.name] = input.value === "" ? undefined : input.type === "number" ? Number(input.value) : input.value;
  save_settings();
}

function save_settings() {
  write("nvllm.settings", settings);
  if (ui.settings.open) show_defaults();
  document.documentElement.dataset.theme = settings.theme ?? "";
  show_model();
}

function sampling() {
  const chosen = Object.fromEntries(numbers.map(([name]) => [name, settings[name]]).filter(([, value]) => is_number(value)));
  const stop = (settings.stop ?? "").split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));
  const tools = attempt(() => JSON.parse(settings.tools), []);
  return { ...chosen, ...(stop.length > 0 && { stop }), ...(tools.length > 0 && { tools }) };
}

// Between the system's choice and the other one.
function switch_theme() {
  const other = matchMedia("(prefers-color-scheme: dark)").matches ? "light" : "dark";
  settings.theme = settings.theme === other ? undefined : other;
  save_settings();
}
