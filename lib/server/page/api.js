// ---- The server

// `message` says what went wrong, `advice` what to do about it.
class Problem extends Error {
  constructor(message, advice, status = null) {
    super(message);
    Object.assign(this, { advice, status });
  }
}

const look_at_log = "Try again. If it happens again, look at the server's log.";
const advice_by_status = {
  400: "Check the settings, then try again.",
  401: "Enter the key that the server was started with.",
  403: "Open this page under an address that the server allows.",
  404: "Choose another model in the settings.",
  429: "The server is busy. Wait a moment, then try again.",
  503: "The server is starting or full. Try again in a moment.",
};

const cannot_reach = () => new Problem("The server cannot be reached.", "Check that nvllm-serve is running, then try again.");

function reported({ message, code } = {}, status, wait_s = 0) {
  const advice = wait_s > 0 ? `Try again in ${plural(wait_s, "second")}.`
    : /context|too long|max_model_len/i.test(`${code} ${message}`) ? "Start a new chat, delete earlier messages, or lower “Max tokens” in the settings."
      : advice_by_status[status] ?? look_at_log;
  return new Problem(message ?? `The server answered with status ${status}.`, advice, status);
}

const key_areas = ["sessionStorage", "localStorage"];
const api_key = () => read("nvllm.key", null, key_areas[0]) ?? read("nvllm.key", null);

const headers_of_request = () => ({ "Content-Type": "application/json", ...(api_key() && { Authorization: `Bearer ${api_key()}` }) });

// Paths are relative, so that the page also works below a proxy's path.
async function ask_server(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", headers: headers_of_request(), ...options }).catch((error) => {
    throw error.name === "AbortError" ? error : cannot_reach();
  });
  if (response.ok) return response;
  if (response.status === 401) ask_key();
  const body = await response.json().catch(() => null);
  throw reported(body?.error, response.status, Number(response.headers.get("Retry-After")));
}

// The data of each server-sent event until [DONE]; an answer that ends without it was cut off.
async function* events_of(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Problem("The connection ended before the answer did.", look_at_log);
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/);
      rest = lines.pop();
      for (const data of lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim())) {
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw new Problem("The server sent something that is no JSON.", look_at_log);
    throw error instanceof TypeError ? cannot_reach() : error;
  } finally {
    reader.cancel().catch(() => {});
  }
}

let models = [];
let connection = { state: "loading", about: "Connecting" };
let models_timer = 0;

const chosen_model = () => (models.includes(settings.model) ? settings.model : models[0] ?? "");

function show_model() {
  ui.models.replaceChildren(...models.map((id) => make("option", id, { value: id })));
  ui.models.value = ui.model_button.title = chosen_model();
  ui.model_dot.className = `dot ${connection.state}`;
  ui.model_name.textContent = connection.about || chosen_model().replace(/\/+$/, "").replace(/^.*\//, "");
}

// Asks until there is a model: a server that loads answers with an error or an empty list.
async function find_models() {
  clearTimeout(models_timer);
  try {
    const { data } = await (await ask_server("v1/models")).json();
    models = data.map((model) => String(model.id));
    connection = models.length > 0 ? { state: "ready" } : { state: "loading", about: "No model yet" };
  } catch ({ status }) {
    connection = { state: status === 503 ? "loading" : "unreachable", about: { 401: "Needs a key", 503: "Loading" }[status] ?? "Not reachable" };
  }
  show_model();
  if (connection.about && !ui.key_dialog.open) models_timer = setTimeout(find_models, 3000);
}

function ask_key() {
  if (ui.key_dialog.open) return;
  ui.key.value = "";
  ui.keep_key.checked = read("nvllm.key", null) !== null;
  ui.key_dialog.showModal();
}

async function take_key(event) {
  event.preventDefault();
  for (const area of key_areas) write("nvllm.key", null, area);
  write("nvllm.key", ui.key.value || null, key_areas[Number(ui.keep_key.checked)]);
  ui.key_dialog.close();
  await find_models();
  if (connection.about) return;
  poll_status();
  if (current.messages.at(-1)?.problem?.status === 401) answer_again();
}
