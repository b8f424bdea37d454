// ---- Code, with its comments, strings, numbers and keywords told apart

// What patterns are made of. Each takes time in proportion to what it matches: what has no end reaches to the end of its line
// or of the text, instead of being tried again from the next character.
const end_of_text = "(?![^])";
const line_comment = (mark) => `${mark}[^\\n]*`;
const block_comment = (open, close) => `${open}[^]*?(?:${close}|${end_of_text})`;
const string_of = (mark) => `${mark}(?:[^${mark}\\\\\\n]|\\\\[^])*${mark}?`;
const long_string_of = (mark) => `${mark}(?:[^${mark}\\\\]|\\\\[^])*${mark}?`;
const number = String.raw`\b(?:0[xXbBoO][\da-fA-F_']+|\d[\d_]*(?:'\d{3})*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*`;
const slashes = `${line_comment("//")}|${block_comment("/\\*", "\\*/")}`;
const hash_comment = "(?<=^|\\s)#[^\\n]*";
const quotes = `${string_of('"')}|${string_of("'")}`;
const word = String.raw`[A-Za-z_]\w*`;

// Patterns by kind, tried in this order at each place, and the words that are keywords.
const languages = {
  python: { comment: line_comment("#"), string: `(?:[rRbBfFuU]{1,2})?(?:${block_comment('"""', '"""')}|${block_comment("'''", "'''")}|${quotes})`, name: "@[\\w.]+",
    keywords: `and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal
      not or pass raise return try while with yield None True False self` },
  js: { comment: slashes, string: `${quotes}|${long_string_of("`")}`, word: "[A-Za-z_$][\\w$]*",
    keywords: `abstract any as async await boolean break case catch class const continue declare default delete do else enum export extends false finally for
      from function get if implements import in instanceof interface keyof let namespace never new null number of private protected public readonly return
      satisfies set static string super switch this throw true try type typeof undefined unknown var void while yield` },
  json: { comment: slashes, name: `"(?:[^"\\\\\\n]|\\\\.)*"(?=[ \\t]*:)`, string: string_of('"'), number: "-?" + number, keywords: "true false null" },
  c: { comment: slashes, name: "^[ \\t]*#[ \\t]*[a-z]+|__[a-z]\\w*__", string: `\\b[uUL]?8?R"(?<mark>[^\\s()\\\\]{0,16})\\([^]*?(?:\\)\\k<mark>"|${end_of_text})|${quotes}`,
    keywords: `alignas alignof asm auto bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield concept const const_cast consteval
      constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern false final float for friend goto if inline
      int int8_t int16_t int32_t int64_t long mutable namespace new noexcept nullptr operator override private protected public register reinterpret_cast
      requires return short signed size_t sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
      typename uint8_t uint16_t uint32_t uint64_t union unsigned using virtual void volatile while` },
  rust: { comment: slashes, name: "#!?\\[[^\\]\\n]*\\]?|'[a-z_]\\w*(?!')|\\b[a-z_]\\w*!(?!=)",
    string: `\\bb?r(?<mark>#{0,8})"[^]*?(?:"\\k<mark>|${end_of_text})|b?${long_string_of('"')}|b?'(?:[^'\\\\\\n]|\\\\u\\{[^}\\n]*\\}|\\\\[^\\n]{1,3}?)'`,
    keywords: `as async await bool break char const continue crate dyn else enum extern f32 f64 false fn for i8 i16 i32 i64 i128 if impl in isize let loop match
      mod move mut pub ref return self Self static str struct super trait true type u8 u16 u32 u64 u128 union unsafe use usize where while` },
  go: { comment: slashes, string: `${quotes}|\`[^\`]*\`?`,
    keywords: `any bool break byte case chan complex128 const continue default defer else error fallthrough false float32 float64 for func go goto if import int
      int8 int16 int32 int64 interface iota map nil package range return rune select string struct switch true type uint uint8 uint16 uint32 uint64 uintptr
      var` },
  java: { comment: slashes, name: "@\\w+", string: `${block_comment('"""', '"""')}|${quotes}`,
    keywords: `abstract as assert async await base bool boolean break byte case catch char class const continue data decimal default delegate do double else enum
      extends false final finally float for foreach fun func get guard if implements import in init instanceof int interface internal is let lock long
      namespace native new nil null object open operator out override package params partial permits private protected protocol public readonly record ref
      return sealed self set short static string struct super switch synchronized this throw throws transient true try typeof uint ulong using val var
      virtual void volatile when where while yield` },
  bash: { comment: hash_comment, string: `${long_string_of('"')}|'[^']*'?`, name: "\\$(?:\\{[^}\\n]*\\}?|\\w+|[@#?*!$-])|(?<=^|\\s)--?[A-Za-z][\\w-]*", number: "(?<![\\w.-])\\d+(?:\\.\\d+)?(?![\\w.-])",
    word: "[A-Za-z_][\\w.-]*",
    keywords: `alias break case cd continue declare do done echo elif else esac exec exit export fi for function if in local printf read readonly return
      set shift sudo source then trap unset until while` },
  html: { comment: block_comment("<!--", "-->"), keyword: "<[!/?]?[A-Za-z][\\w:.-]*|[/?]?>", string: `(?<==)(?:"[^"]*"?|'[^']*'?)`, name: "[\\w:@.-]+(?==)",
    number: "&#?\\w{1,32};", word: "[\\w:@.-]+", keywords: "" },
  css: { comment: block_comment("/\\*", "\\*/"), string: quotes, keyword: "@[\\w-]+|![a-z]+", name: "--[\\w-]+|[a-z-]+(?=:[ \\t])", number: "#[\\da-fA-F]{3,8}\\b|-?(?:\\d*\\.)?\\d+(?:%|[a-z]+)?",
    word: "[\\w-]+", keywords: "" },
  sql: { comment: `${line_comment("--")}|${block_comment("/\\*", "\\*/")}`, string: `'(?:[^']|'')*'?|"[^"\\n]*"?`, folds_case: true,
    keywords: `add all alter and any as asc begin between bigint boolean by case cast check column commit constraint create cross current database date default
      delete desc distinct double drop else end except exists explain false float for foreign from full grant group having if in index inner insert int
      integer intersect interval into is join key lateral left like limit materialized natural not null numeric offset on or order outer over partition
      primary real references returning revoke right rollback rows select set smallint table temporary text then timestamp to transaction true truncate
      union unique update using values varchar view when where window with` },
  yaml: { comment: hash_comment, name: "^[ \\t]*(?:- +)*[\\w./-]+(?=:(?:\\s|(?![^])))|[&*][\\w-]+", string: `${string_of('"')}|'(?:[^'\\n]|'')*'?`, number: "(?<![\\w.-])-?\\d+(?:\\.\\d+)?(?![\\w.-])",
    word: "[\\w./-]+", keywords: "true false null yes no on off" },
  toml: { comment: line_comment("[#;]"), keyword: "^[ \\t]*\\[[^\\]\\n]*\\]+", name: "^[ \\t]*[\\w.-]+(?=[ \\t]*=)", string: `${block_comment('"""', '"""')}|${quotes}`, keywords: "true false" },
  diff: { comment: "^(?:diff|index|---|\\+\\+\\+|Index:)[^\\n]*", name: "^@@[^\\n]*", inserted: "^[+>][^\\n]*", deleted: "^[-<][^\\n]*", number: "", word: "", keywords: "" },
};
const language_names = symbols(`py=python python3=python pyi=python ipython=python javascript=js jsx=js mjs=js ts=js tsx=js
  typescript=js node=js jsonc=json json5=json jsonl=json h=c cc=c cpp=c hpp=c cxx=c c++=c cuda=c cu=c cuh=c objc=c opencl=c hlsl=c glsl=c
  rs=rust golang=go cs=java csharp=java c#=java kotlin=java kt=java swift=java scala=java dart=java sh=bash shell=bash zsh=bash console=bash
  dockerfile=bash makefile=bash make=bash xml=html svg=html vue=html xhtml=html scss=css less=css mysql=sql postgresql=sql postgres=sql sqlite=sql
  psql=sql yml=yaml ini=toml conf=toml patch=diff`);
const code_kinds = ["comment", "inserted", "deleted", "keyword", "name", "string", "number"];
const most_coloured_chars = 200000;

// One pattern for a language, made when it is first met.
const grammars = new Map();
function grammar_of(label) {
  const known = label.toLowerCase();
  const name = language_names.get(known) ?? known;
  if (!Object.hasOwn(languages, name)) return null;
  if (!grammars.has(name)) {
    const { keywords, folds_case = false, ...patterns } = { number, word, ...languages[name] };
    const source = [...code_kinds, "word"].filter((kind) => patterns[kind]).map((kind) => `(?<${kind}>${patterns[kind]})`).join("|");
    grammars.set(name, { pattern: new RegExp(source, "gm"), keywords: new Set(keywords.split(/\s+/)), folds_case });
  }
  return grammars.get(name);
}

const code_kind = ({ groups }, { keywords, folds_case }) => (groups.word === undefined ? code_kinds.find((kind) => groups[kind] !== undefined)
  : keywords.has(folds_case ? groups.word.toLowerCase() : groups.word) ? "keyword" : null);

// A block of code that may grow. What is coloured before its last line stays as it is.
class CodeBlock {
  constructor(language) {
    const head = make("header", make("span", language || "text"), copy_button(() => this.text_));
    Object.assign(this, { language, text_: "", grammar_: grammar_of(language), code_: make("code"), settled_chars_: 0, open_nodes_: [] });
    this.node = make("div.code", { dir: "ltr" }, head, make("pre", { tabIndex: 0 }, this.code_));
  }

  show(text) {
    this.code_.replaceChildren();
    Object.assign(this, { settled_chars_: 0, open_nodes_: [] });
    this.grow(text);
  }

  // REQUIRES: a text that begins as the one before, but for its last line.
  grow(text) {
    this.text_ = text;
    if (this.grammar_ && text.length <= most_coloured_chars) this.colour_();
    else this.code_.textContent = text;
  }

  colour_() {
    const { text_: text, grammar_: grammar, open_nodes_: open } = this;
    for (const node of open.splice(0)) node.remove();
    const add = (node) => {
      this.code_.append(node);
      open.push(node);
    };
    const last_line = text.lastIndexOf("\n");
    let shown = grammar.pattern.lastIndex = this.settled_chars_;
    for (let found; (found = grammar.pattern.exec(text));) {
      const kind = code_kind(found, grammar);
      if (!kind) continue;
      if (found.index > shown) add(new Text(text.slice(shown, found.index)));
      add(make(`span.${kind}`, found[0]));
      shown = found.index + found[0].length;
      // A token on an earlier line is what it is, whatever comes.
      if (shown >= last_line) continue;
      this.settled_chars_ = shown;
      open.length = 0;
    }
    if (shown < text.length) add(new Text(text.slice(shown)));
  }
}
