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
const readable = (name) => String(name ?? "–").replaceAll(/[_-]/g, " ").replace(/^./, (letter) => letter.toUpperCase());

async function poll_status() {
  clearTimeout(status_timer);
  const poll = ++polls;
  if (!status_open() || document.hidden) return;
  const status = await ask_server("nvllm/status").then((response) => response.json()).catch((problem) => problem);
  if (poll !== polls) return;
  if (status instanceof Error) show_state("unreachable", `${status.message} ${status.advice ?? ""}`);
  else show_status(status);
  if (polls % 10 === 1) show_keys();
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

const limit_text = (name, value) => (/^\d+$/.test(value) ? `${count(value)}${/(timeout|interval)$/.test(name) ? " s" : ""}` : String(value ?? "none"));

function show_status({ state, model, version, uptime_s, requests, max_num_seqs, tokens, kv_cache, worker, health, limits, queue }) {
  show_state(state, state_about[state] ?? "");
  const fault = health?.last_fault;
  show_facts(ui.state_facts, { "Model": model || "none yet", "Version": version ?? "–", "Up for": duration(uptime_s), "Last step": duration(health?.heartbeat_age_s),
    "Worker restarts": count(worker?.restarts), "Last fault": fault ? fault.message ?? String(fault) : "none" });
  show_requests(requests ?? {}, max_num_seqs, limits ?? {});
  show_speed(tokens ?? {});
  show_cache(kv_cache ?? {});
  show_queue(queue ?? []);
  show_facts(ui.limit_facts, Object.fromEntries(Object.entries(limits ?? {}).map(([name, value]) => [readable(name), limit_text(name, value)])));
}

// A bar is a share of the most there may be, which stands beside it; where there is no such limit, there is no bar.
function show_requests({ running = 0, waiting = 0, paused = 0, swapped = 0 }, max_num_seqs, limits) {
  const row = (name, value, most) => [make("span", name), most > 0 ? make(`progress.${name}`, { max: Math.max(most, value), value, ariaLabel: name }) : make("span"),
    make("span", count(value), most > 0 ? make("span.quiet", ` of ${count(most)}`) : "")];
  ui.request_bars.replaceChildren(...row("Running", running, max_num_seqs), ...row("Waiting", waiting, Number(limits["max-queued-requests"])),
    ...row("Paused", paused), ...row("Swapped", swapped));
}

// The least of 1, 2, 5, 10, 20 and so on that is no less: a scale that seldom changes.
function round_scale(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].find((factor) => factor * power >= value) * power;
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
  const most = round_scale(highest);
  const line = speeds.map((value, index) => `${first + index},${(40 - (40 * value) / most).toFixed(1)}`).join("L");
  ui.spark_most.textContent = count(most);
  ui.spark_line.setAttribute("d", line && `M${line}`);
  ui.spark_area.setAttribute("d", line && `M${first},40L${line}L${most_samples - 1},40Z`);
  ui.speed_now.textContent = speed < 100 ? speed.toFixed(1) : count(Math.round(speed));
  ui.speed_about.textContent = `Highest ${count(Math.round(highest))} in two minutes · ${count(generated)} generated and ${count(prompt)} read since the start`;
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
    make("tr", make("td", id), make("td", readable(state)), ...[duration(age_s), count(prompt_tokens), count(generated_tokens)].map((text) => make("td.number", text)),
      make("td", why_waiting ?? "")));
  const rest = rows.length === 0 ? "No requests." : queue.length > most_rows ? `and ${count(queue.length - most_rows)} more` : "";
  ui.queue.replaceChildren(...rows, rest && make("tr", make("td.quiet", rest, { colSpan: 6 })));
}

// Only the metrics tell what each key has used. A server that shows them to no one here has no such table.
const key_metric = /^nvllm_key_(requests|requests_refused|tokens)_total\{key="((?:[^"\\]|\\.)*)"(?:,kind="(\w+)")?\} (\S+)$/gm;

async function show_keys() {
  const text = await fetch("metrics", { cache: "no-store", headers: headers_of_request() }).then((response) => (response.ok ? response.text() : "")).catch(() => "");
  const keys = new Map();
  for (const [, family, name, kind = family, value] of text.matchAll(key_metric)) keys.set(name, { ...keys.get(name), [kind]: Number(value) });
  ui.keys_card.hidden = keys.size === 0;
  ui.keys.replaceChildren(...Array.from(keys, ([name, { requests, requests_refused, prompt, generated }]) =>
    make("tr", make("td", name.replace(/\\(["\\])/g, "$1")), ...[requests, requests_refused, prompt, generated].map((value) => make("td.number", count(value))))));
}
