"use strict";

// ---- Small things

const ui = Object.fromEntries(Array.from(document.querySelectorAll("[id]"), (node) => [node.id, node]));

// make("p.note", "text", child, { title: "property" }): an element with classes, children and properties; null is nothing.
function make(tag, ...parts) {
  const [name, ...classes] = tag.split(".");
  const node = Object.assign(document.createElement(name), { className: classes.join(" ") });
  for (const part of parts) {
    if (part instanceof Node || typeof part !== "object") node.append(part);
    else Object.assign(node, part);
  }
  return node;
}

// symbols("name=value name=value"): a table of words.
const symbols = (text) => new Map(text.trim().split(/\s+/).map((word) => word.split("=", 2)));
const is_number = (value) => typeof value === "number" && Number.isFinite(value);
const count = (value) => Number(value ?? 0).toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
// crypto.randomUUID exists on https and localhost only.
const new_id = () => crypto.getRandomValues(new Uint32Array(3)).join("_");

function duration(seconds) {
  if (!is_number(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

function attempt(action, fallback) {
  try {
    return action() ?? fallback;
  } catch {
    return fallback;
  }
}

// Storage may be forbidden or full: then reading gives the fallback, and writing false.
const read = (key, fallback, area = "localStorage") => attempt(() => JSON.parse(window[area].getItem(key)), fallback);
const write = (key, value, area = "localStorage") => attempt(() => {
  if (value === null) window[area].removeItem(key);
  else window[area].setItem(key, JSON.stringify(value));
  return true;
}, false);

let toast_timer = 0;
function toast(text, undo = null) {
  clearTimeout(toast_timer);
  ui.toast_text.textContent = text;
  ui.undo.hidden = undo === null;
  ui.undo.onclick = () => { ui.toast.hidden = true; undo(); };
  ui.toast.hidden = false;
  toast_timer = setTimeout(() => { ui.toast.hidden = true; }, 8000);
}

// The clipboard interface exists on https and localhost only; elsewhere a selection is copied.
async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea.unseen", { value: text });
    from.after(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    from.focus();
  }
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = "Copy"; }, 1500);
}

// What is copied is asked for when the button is pressed: by then it may have grown.
const copy_button = (text) => make("button", "Copy", { onclick: (event) => copy(text(), event.target) });
