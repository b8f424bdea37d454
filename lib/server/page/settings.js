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
let settings = { ...read("nvllm.settings", {}) };

function build_settings() {
  for (const [name, label, min, max, step] of numbers) {
    ui.numbers.append(make("label.field", label, make("input", { type: "number", placeholder: "server's choice", name, min, max, step })));
  }
  for (const input of ui.settings.querySelectorAll("[name]")) {
    input.value = settings[input.name] ?? "";
    input.oninput = () => take_setting(input);
  }
}

function take_setting(input) {
  if (!input.checkValidity()) return;
  settings[input.name] = input.value === "" ? undefined : input.type === "number" ? Number(input.value) : input.value;
  save_settings();
}

function save_settings() {
  write("nvllm.settings", settings);
  document.documentElement.dataset.theme = settings.theme ?? "";
  show_model();
}

function sampling() {
  const chosen = Object.fromEntries(numbers.map(([name]) => [name, settings[name]]).filter(([, value]) => is_number(value)));
  const stop = (settings.stop ?? "").split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));
  return stop.length > 0 ? { ...chosen, stop } : chosen;
}

// Between the system's choice and the other one.
function switch_theme() {
  const other = matchMedia("(prefers-color-scheme: dark)").matches ? "light" : "dark";
  settings.theme = settings.theme === other ? undefined : other;
  save_settings();
}
