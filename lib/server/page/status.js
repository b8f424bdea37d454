// ---- Status

const state_about = {
  ready: "Takes requests.",
  loading: "The model is being loaded; requests wait.",
  recovering: "The worker was lost and is being started again; requests go on after that.",
  stalled: "No step has ended for a while. Look at the server's log.",
  shutting_down: "Finishes what runs and takes nothing new.",
};
const most_samples = 120;

let status_timer = 0;
let polls = 0;
let speeds = [];  // tokens a second, one a poll
let last_poll = null;

const status_open = () => location.hash === "#status";
const readable = (name) => String(name ?? "–").replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());

async function poll_status() {
  clearTimeout(status_timer);
  const poll = ++polls;
  if (!status_open() || document.hidden) return;
  const status = await ask_server("nvllm/status").then((response) => response.json()).catch((problem) => problem);
  if (poll !== polls) return;
  if (status instanceof Error) show_state("unreachable", `${status.message} ${status.advice ?? ""}`);
  else show_status(status);
  if (status.status !== 401) status_timer = setTimeout(poll_status, 1000);
}

function show_state(state, about) {
  ui.board.classList.toggle("stale", state === "unreachable");
  ui.state_dot.className = `dot ${state}`;
  ui.state_word.textContent = readable(state);
  ui.state_about.textContent = about;
}

function show_facts(list, facts) {
  list.replaceChildren(...Object.entries(facts).map(([name, value]) => make("div", make("dt", name), make("dd", value))));
}

function show_status({ state, model, version, uptime_s, requests, tokens, kv_cache, worker, health, limits, queue }) {
  show_state(state, state_about[state] ?? "");
  const fault = health?.last_fault;
  show_facts(ui.state_facts, { "Model": model || "none yet", "Version": version ?? "–", "Up for": duration(uptime_s), "Last step": duration(health?.heartbeat_age_s),
    "Worker restarts": count(worker?.restarts), "Last fault": fault ? fault.message ?? String(fault) : "none" });
  show_requests(requests ?? {}, limits?.max_num_seqs ?? 8);
  show_speed(tokens ?? {});
  show_cache(kv_cache ?? {});
  show_queue(queue ?? []);
  show_facts(ui.limit_facts, Object.fromEntries(Object.entries(limits ?? {}).map(([name, value]) => [readable(name), is_number(value) ? count(value) : String(value ?? "none")])));
}

function show_requests({ running = 0, waiting = 0, paused = 0, swapped = 0 }, most_running) {
  const rows = Object.entries({ Running: running, Waiting: waiting, Paused: paused, Swapped: swapped });
  const max = Math.max(most_running, ...rows.map(([, value]) => value));
  ui.request_bars.replaceChildren(...rows.flatMap(([name, value]) => [name, make(`progress.${name}`, { max, value, ariaLabel: name }), count(value)].map((part) => make("span", part))));
}

function show_speed({ generated_total: generated = 0, prompt_total: prompt = 0 }) {
  const at = performance.now();
  const seconds = (at - last_poll?.at) / 1000;
  if (generated >= last_poll?.generated && seconds < 5) speeds.push((generated - last_poll.generated) / seconds);
  last_poll = { generated, at };
  speeds = speeds.slice(-most_samples);
  const speed = speeds.at(-1) ?? 0;
  const highest = Math.max(...speeds, 0);
  const first = most_samples - speeds.length;
  const line = speeds.map((value, index) => `${first + index},${(38 - (36 * value) / Math.max(highest, 1)).toFixed(1)}`).join("L");
  ui.spark_line.setAttribute("d", line && `M${line}`);
  ui.spark_area.setAttribute("d", line && `M${first},40L${line}L${most_samples - 1},40Z`);
  ui.speed_now.textContent = speed.toFixed(speed < 100 ? 1 : 0);
  ui.speed_about.textContent = `Highest ${highest.toFixed()} in two minutes · ${count(generated)} generated and ${count(prompt)} read since the start`;
}

// The server says how many blocks are of each kind, not where they lie: the map is in order of kind.
function show_cache({ blocks_total: total = 0, blocks_used: used = 0, blocks_cached: cached = 0, blocks_free, block_size = 0, hit_rate, fragmentation, preemptions }) {
  const cells = Math.min(total, 320);
  const kind_at = (index) => (index < used ? "i.used" : index < used + cached ? "i.cached" : "i");
  ui.block_map.replaceChildren(...Array.from({ length: cells }, (_, index) => make(kind_at((index * total) / cells))));
  ui.block_map.ariaLabel = `${count(used)} of ${count(total)} blocks in use, ${count(cached)} cached`;
  ui.block_legend.replaceChildren(...[["i.used", used, "in use"], ["i.cached", cached, "cached"], ["i", blocks_free, "free"]]
    .map(([tag, blocks, text]) => make("span", make(tag), `${count(blocks)} ${text}`)), total > cells ? `a square is about ${count(Math.round(total / cells))} blocks` : "");
  const percent = (value) => (is_number(value) ? `${(100 * value).toFixed(1)} %` : "–");
  show_facts(ui.cache_facts, { "Room for": plural(total * block_size, "token"), "Block size": plural(block_size, "token"), "Prefix hits": percent(hit_rate),
    "Fragmentation": percent(fragmentation), "Preemptions": count(preemptions) });
}

function show_queue(queue) {
  const most_rows = 100;
  const rows = queue.slice(0, most_rows).map(({ id, state, age_s, prompt_tokens, generated_tokens, why_waiting }) =>
    make("tr", ...[id, readable(state), duration(age_s), count(prompt_tokens), count(generated_tokens), why_waiting ?? ""].map((text) => make("td", text))));
  const rest = rows.length === 0 ? "No requests." : queue.length > most_rows ? `and ${count(queue.length - most_rows)} more` : "";
  ui.queue.replaceChildren(...rows, rest && make("tr", make("td.quiet", rest, { colSpan: 6 })));
}
