// ---- Markdown, as document nodes

const marks = /\\[\\`*_#~>|+.!{}$([-]|\${1,2}|`+|\*{1,3}|_{1,2}|~~|\[|https?:\/\//g;
const labelled_link = /\[([^[\]\n]{1,300})\]\(((?:https?:\/\/|mailto:)[^\s()<>]{1,2000}(?:\([^\s()<>]{0,200}\))?)\)/y;
const bare_address = /https?:\/\/[^\s<>"`{}|\\^[\]]{1,2000}/y;
const emphasis = { "*": ["em"], _: ["em"], "**": ["strong"], __: ["strong"], "***": ["strong", "em"], "~~": ["s"] };

// A link says where it leads, also when its label says something else.
function link(label, address) {
  const place = address.split("/")[2] ?? address;
  const node = make("a", inline(label, 5), { href: address, target: "_blank", rel: "noopener noreferrer", title: address });
  return label.includes(place) ? [node] : [node, make("span.quiet.small", ` (${place})`)];
}

// Where the mark stands that closes an emphasis begun before `from`, or -1.
function closing(text, mark, from) {
  for (let at = text.indexOf(mark, from + 1); at >= 0; at = text.indexOf(mark, at + 1)) {
    if (/[\s\\]/.test(text[at - 1]) || (mark[0] === "_" && /\w/.test(text[at + mark.length] ?? ""))) continue;
    if (mark.length > 1 || text[at + 1] !== mark) return at;
    ++at;
  }
  return -1;
}

function linked(text, mark, at) {
  const pattern = mark === "[" ? labelled_link : bare_address;
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  if (!found) return null;
  if (mark === "[") return { nodes: link(found[1], found[2]), end: pattern.lastIndex };
  const address = found[0].replace(/[.,:;!?'")*_]+$/, "");
  return { nodes: link(address, address), end: at + address.length };
}

const formula_ends = { "$$": "$$", "\\(": "\\)", "\\[": "\\]" };

// A formula that cannot be read stays as it was written, marks included.
function formula_piece(text, mark, at, hopeless) {
  if (hopeless.has(mark)) return null;
  const close = formula_ends[mark];
  const inside = at + mark.length;
  const until = close ? text.indexOf(close, inside) : -1;
  const found = !close ? dollar_formula(text, at) : { source: text.slice(inside, until), end: until < 0 ? -1 : until + close.length };
  if (found?.end < 0) hopeless.add(mark);
  if (!found || found.end < 0) return null;
  const is_inline = ["$", "\\("].includes(mark);
  const node = is_inline ? formula(found.source, false) : display_formula(found.source);
  const stop = node && is_inline ? /^[.,;:!?]?/.exec(text.slice(found.end, found.end + 1))[0] : "";
  if (stop) return { nodes: [make("span.kept", node, stop)], end: found.end + 1 };  // on one line
  return { nodes: [node ?? text.slice(at, found.end)], end: found.end };
}

// What begins with `mark` at `at`: its nodes and where it ends, or null when the mark is just text. A mark that has no
// partner is remembered as hopeless, so that a text full of them takes linear time.
function inline_piece(text, mark, at, depth, hopeless) {
  const inside = at + mark.length;
  if (mark[0] === "$" || formula_ends[mark]) return formula_piece(text, mark, at, hopeless);
  if (mark[0] === "\\") return { nodes: [mark[1]], end: inside };
  if (mark === "[" || mark[0] === "h") return depth > 4 ? null : linked(text, mark, at);
  const is_code = mark[0] === "`";
  const opens = is_code || (/\S/.test(text[inside] ?? " ") && !(mark[0] === "_" && /\w/.test(text[at - 1] ?? "")));
  if (!opens || hopeless.has(mark)) return null;
  const end = is_code ? text.indexOf(mark, inside) : closing(text, mark, inside);
  if (end < 0) hopeless.add(mark);
  if (end < 0) return null;
  const content = text.slice(inside, end);
  const node = is_code ? make("code", content) : emphasis[mark].reduceRight((child, tag) => make(tag, child), inline(content, depth + 1));
  return { nodes: [node], end: end + mark.length };
}

function inline(text, depth = 0) {
  const into = document.createDocumentFragment();
  const hopeless = new Set();
  let shown = 0;
  for (let from = 0; depth < 6;) {
    marks.lastIndex = from;
    const found = marks.exec(text);
    if (!found) break;
    const piece = inline_piece(text, found[0], found.index, depth, hopeless);
    from = piece?.end ?? found.index + found[0].length;
    if (!piece) continue;
    into.append(text.slice(shown, found.index), ...piece.nodes);
    shown = from;
  }
  into.append(text.slice(shown));
  return into;
}

const fence_start = /^ {0,3}(`{3,}|~{3,}) *([^\s`]*)/;
const heading = /^ {0,3}(#{1,6}) +(\S.*)$/;
const rule = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const list_mark = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/;
const quote_mark = /^ {0,3}> ?/;
const display_start = /^ {0,3}(\$\$|\\\[|\\begin\{(?:equation|align|alignat|gather|multline|eqnarray)\*?\})/;
const task_mark = /^\[([ xX])\] +(?=\S)/;
const starts = [fence_start, heading, rule, quote_mark, display_start, /^ {0,3}(?:[-*+]|1[.)]) /];
const is_blank = (line) => line.trim() === "";
const indent_of = (line) => line.search(/\S|$/);
const is_table = (line, below = "") => line.includes("|") && below.includes("|") && below.includes("-") && /^[ :|-]+$/.test(below);
const interrupts = (lines, at) => starts.some((start) => start.test(lines[at])) || is_table(lines[at], lines[at + 1]);

const is_fence_end = (line, ticks) => line.trim().startsWith(ticks) && line.trim().replaceAll(ticks[0], "") === "";
const code_line = (line, indent) => line.slice(Math.min(indent, indent_of(line)));

// Each of these makes the block that begins at line `at`: its node, and the first line after it.
function fence(lines, at) {
  const [, ticks, language] = fence_start.exec(lines[at]);
  const indent = indent_of(lines[at]);
  let next = at + 1;
  while (next < lines.length && !is_fence_end(lines[next], ticks)) ++next;
  const block = new CodeBlock(language);
  block.show(lines.slice(at + 1, next).map((line) => code_line(line, indent)).join("\n"));
  const is_open = next >= lines.length && lines.length > at + 1;
  return { node: block.node, next: next + 1, open_code: is_open ? { block, ticks, indent } : null };
}

// A formula on lines of its own, up to a blank line at most. Until its end is there it is text, and none of it anything else.
function display(lines, at) {
  const mark = display_start.exec(lines[at])[1];
  const close = formula_ends[mark] ?? mark.replace("begin", "end");
  const is_environment = close !== formula_ends[mark];
  let next = at;
  while (next < lines.length && !is_blank(lines[next])) ++next;
  const text = lines.slice(at, next).join("\n");
  const inside = text.indexOf(mark) + mark.length;
  const end = text.indexOf(close, inside);
  if (end < 0) return { node: make("p", text), next };
  const after = end + close.length;
  next = at + text.slice(0, after).split("\n").length;
  const whole = lines.slice(at, next).join("\n");
  const node = display_formula(is_environment ? text.slice(inside - mark.length, after) : text.slice(inside, end));
  if (whole.length > after && !is_blank(whole.slice(after))) return { node: make("p", inline(whole)), next };
  return { node: make("p", node ?? whole), next };
}

const task_box = (is_done) => make("input", { type: "checkbox", disabled: true, defaultChecked: is_done, ariaLabel: is_done ? "Done" : "To do" });

// To an item belong indented lines, blank lines before those, and the rest of its paragraph.
function list_item(lines, at, depth) {
  const [whole, space, mark] = list_mark.exec(lines[at]);
  const own = [lines[at].slice(whole.length)];
  let next = at + 1;
  for (; next < lines.length; ++next) {
    const indent = indent_of(lines[next]);
    if (indent >= space.length + 2 || is_blank(lines[next])) own.push(lines[next].slice(Math.min(indent, space.length + mark.length + 1)));
    else if (is_blank(own.at(-1)) || interrupts(lines, next) || list_mark.test(lines[next])) break;
    else own.push(lines[next]);
  }
  const task = task_mark.exec(own[0]);
  if (task) own[0] = own[0].slice(task[0].length);
  const node = make(task ? "li.task" : "li", blocks(own, depth + 1));
  if (task) node.firstElementChild.prepend(task_box(task[1] !== " "));
  return { node, next };
}

function list(lines, at, depth) {
  const kind = (line = "") => list_mark.exec(line)?.[2].at(-1);
  const number = parseInt(lines[at], 10);
  const node = number >= 0 ? make("ol", { start: number }) : make("ul");
  let next = at;
  while (kind(lines[next]) === kind(lines[at]) && !rule.test(lines[next])) {
    const item = list_item(lines, next, depth);
    node.append(item.node);
    next = item.next;
  }
  return { node, next };
}

function table(lines, at) {
  const row = (line, tag) => make("tr", ...line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => make(tag, inline(cell.trim()))));
  let next = at + 2;
  while (lines[next]?.includes("|")) ++next;
  const body = lines.slice(at + 2, next).map((line) => row(line, "td"));
  return { node: make("div.table", { tabIndex: 0 }, make("table", make("thead", row(lines[at], "th")), make("tbody", ...body))), next };
}

function quote(lines, at, depth) {
  let next = at;
  while (quote_mark.test(lines[next] ?? "")) ++next;
  return { node: make("blockquote", blocks(lines.slice(at, next).map((line) => line.replace(quote_mark, "")), depth + 1)), next };
}

function paragraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && !is_blank(lines[next]) && !interrupts(lines, next)) ++next;
  return { node: make("p", inline(lines.slice(at, next).join("\n"))), next };
}

function block(lines, at, depth) {
  const line = lines[at];
  if (fence_start.test(line)) return fence(lines, at);
  if (display_start.test(line)) return display(lines, at);
  const title = heading.exec(line);
  if (title) return { node: make(`h${Math.min(title[1].length + 2, 6)}`, inline(title[2])), next: at + 1 };
  if (rule.test(line)) return { node: make("hr"), next: at + 1 };
  if (depth < 8 && quote_mark.test(line)) return quote(lines, at, depth);
  if (depth < 8 && list_mark.test(line)) return list(lines, at, depth);
  return (is_table(line, lines[at + 1]) ? table : paragraph)(lines, at);
}

function blocks(lines, depth) {
  const into = document.createDocumentFragment();
  for (let at = 0; at < lines.length;) {
    const { node, next } = is_blank(lines[at]) ? { node: "", next: at + 1 } : block(lines, at, depth);
    into.append(node);
    at = next;
  }
  return into;
}

// A text that grows: blocks that more text cannot change stay as they are; only what follows them is made again. Of a block of
// code, which may be long, only the end is.
class GrowingText {
  constructor(root) {
    Object.assign(this, { root_: root, settled_chars_: 0, open_nodes_: [], open_code_: null });
  }

  show(text) {
    if (this.grow_code_(text)) return;
    let lines = text.slice(this.settled_chars_).split("\n");
    for (const node of this.open_nodes_.splice(0)) node.remove();
    this.open_code_ = null;
    for (let at = 0; at < lines.length;) {
      if (is_blank(lines[at])) { ++at; continue; }
      const { node, next, open_code } = block(lines, at, 0);
      this.root_.append(node);
      this.open_nodes_.push(node);
      if (open_code && this.open_nodes_.length === 1) {
        this.open_code_ = { ...open_code, code: "", chars: this.settled_chars_ + lines.slice(0, at + 1).join("\n").length + 1 };
      }
      at = next;
      // That a block has ended is known once the two lines after it are whole.
      const follower = lines.findIndex((line, index) => index >= next && !is_blank(line));
      if (follower < 0 || follower + 2 >= lines.length) continue;
      this.settled_chars_ += lines.slice(0, next).join("\n").length + 1;
      this.open_nodes_ = [];
      lines = lines.slice(next);
      at = 0;
    }
  }

  // True when all that is not settled is a block of code that still has no end. Its whole lines are read once.
  grow_code_(text) {
    const open = this.open_code_;
    if (!open) return false;
    const lines = text.slice(open.chars).split("\n");
    if (lines.some((line) => is_fence_end(line, open.ticks))) return false;
    const last = lines.pop();
    for (const line of lines) {
      open.code += `${code_line(line, open.indent)}\n`;
      open.chars += line.length + 1;
    }
    open.block.grow(open.code + code_line(last, open.indent));
    return true;
  }
}
