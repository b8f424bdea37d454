// ---- Formulas: LaTeX as MathML, which browsers draw by themselves

const letters = symbols(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ varkappa=ϰ
  lambda=λ mu=μ nu=ν xi=ξ omicron=ο pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω
  partial=∂ ell=ℓ imath=ı jmath=ȷ`);
const upright_letters = symbols(`Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω nabla=∇ infty=∞ hbar=ℏ Re=ℜ
  Im=ℑ wp=℘ aleph=ℵ beth=ℶ emptyset=∅ varnothing=∅ top=⊤ bot=⊥ angle=∠ degree=° square=□ blacksquare=■ checkmark=✓ triangle=△ ldots=…
  dots=… dotsc=… cdots=⋯ dotsb=⋯ vdots=⋮ ddots=⋱ prime=′ complement=∁ S=§ P=¶ pounds=£ diamond=⋄ clubsuit=♣ heartsuit=♡ spadesuit=♠`);
const operators = symbols(`pm=± mp=∓ times=× div=÷ cdot=⋅ ast=∗ star=⋆ circ=∘ bullet=∙ cap=∩ cup=∪ sqcap=⊓ sqcup=⊔ wedge=∧ land=∧ vee=∨ lor=∨
  setminus=∖ oplus=⊕ ominus=⊖ otimes=⊗ oslash=⊘ odot=⊙ uplus=⊎ amalg=⨿ dagger=† ddagger=‡ ltimes=⋉ rtimes=⋊ bowtie=⋈
  le=≤ leq=≤ leqslant=⩽ ge=≥ geq=≥ geqslant=⩾ ne=≠ neq=≠ lt=< gt=> equiv=≡ sim=∼ nsim=≁ simeq=≃ approx=≈ cong=≅ asymp=≍ doteq=≐ propto=∝
  ll=≪ gg=≫ lesssim=≲ gtrsim=≳ prec=≺ succ=≻ preceq=⪯ succeq=⪰ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ subsetneq=⊊ supsetneq=⊋ nsubseteq=⊈
  sqsubseteq=⊑ sqsupseteq=⊒ in=∈ notin=∉ ni=∋ mid=∣ nmid=∤ parallel=∥ nparallel=∦ perp=⊥ models=⊨ vDash=⊨ vdash=⊢ dashv=⊣ triangleq=≜
  coloneqq=≔ coloneq=≔ colon=: neg=¬ lnot=¬ forall=∀ exists=∃ nexists=∄ therefore=∴ because=∵ to=→ rightarrow=→ gets=← leftarrow=←
  leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔ implies=⟹ impliedby=⟸ iff=⟺ mapsto=↦ longmapsto=⟼ longrightarrow=⟶
  longleftarrow=⟵ longleftrightarrow=⟷ Longrightarrow=⟹ Longleftarrow=⟸ Longleftrightarrow=⟺ hookrightarrow=↪ hookleftarrow=↩ uparrow=↑
  downarrow=↓ updownarrow=↕ Uparrow=⇑ Downarrow=⇓ nearrow=↗ searrow=↘ swarrow=↙ nwarrow=↖ rightharpoonup=⇀ leftharpoonup=↼
  rightleftharpoons=⇌ leadsto=⇝ rightsquigarrow=⇝ twoheadrightarrow=↠ backslash=∖ surd=√`);
const large_operators = symbols(`sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigodot=⨀ bigvee=⋁ bigwedge=⋀ bigsqcup=⨆
  biguplus=⨄`);
const integrals = symbols("int=∫ iint=∬ iiint=∭ oint=∮ oiint=∯");
const functions = new Set(("arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh").split(" "));
const limit_functions = symbols("lim=lim max=max min=min sup=sup inf=inf det=det gcd=gcd Pr=Pr argmax=argmax argmin=argmin");
limit_functions.set("limsup", "lim\u2006sup").set("liminf", "lim\u2006inf");
const fences = symbols(`(=( )=) [=[ ]=] |=| /=/ .= <=⟨ >=⟩ \\{={ \\}=} \\lbrace={ \\rbrace=} \\lbrack=[ \\rbrack=] \\|=‖ \\vert=| \\lvert=| \\rvert=|
  \\Vert=‖ \\lVert=‖ \\rVert=‖ \\langle=⟨ \\rangle=⟩ \\lfloor=⌊ \\rfloor=⌋ \\lceil=⌈ \\rceil=⌉ \\lgroup=⟮ \\rgroup=⟯ \\ulcorner=⌜ \\urcorner=⌝
  \\uparrow=↑ \\downarrow=↓ \\updownarrow=↕ \\backslash=∖`);
const accents = symbols("hat=^ bar=¯ vec=→ dot=˙ ddot=¨ dddot=⃛ tilde=~ check=ˇ breve=˘ acute=´ grave=` mathring=˚");
const wide_accents = symbols("widehat=^ widetilde=~ widecheck=ˇ overrightarrow=→ overleftarrow=← overleftrightarrow=↔");
const braces = symbols("overbrace=⏞ overbracket=⎴ underbrace=⏟ underbracket=⎵");
const long_arrows = symbols("xrightarrow=→ xleftarrow=← xleftrightarrow=↔ xRightarrow=⇒ xLeftarrow=⇐ xmapsto=↦ xrightleftharpoons=⇌");
const spaces = symbols("\\,=.167em \\:=.222em \\>=.222em \\;=.278em \\!=-.167em \\quad=1em \\qquad=2em \\enspace=.5em \\thinspace=.167em ~=.25em");
spaces.set("\\ ", ".25em");
const fence_sizes = symbols("big=1.2em Big=1.8em bigg=2.4em Bigg=3em");
const environments = symbols(`matrix= smallmatrix= pmatrix=() bmatrix=[] Bmatrix={} vmatrix=|| Vmatrix=‖‖ array= subarray= cases={ dcases={ rcases=.}
  aligned= align= align*= alignat= alignat*= alignedat= split= eqnarray= eqnarray*= gather= gather*= gathered= equation= equation*= multline=
  multline*=`);
const aligned = /^(?:align|split|eqnarray)/;
const silent = new Set("\\limits \\nolimits \\nonumber \\notag \\mathstrut \\strut \\relax \\mathop \\mathrel \\mathbin \\mathord \\mathopen \\mathclose \\mathinner \\textstyle \\normalsize".split(" "));
const escaped_signs = new Set("\\% \\$ \\# \\& \\_".split(" "));
const text_classes = symbols("text= textrm= textnormal= mbox= hbox= textup= textbf=bold textit=slanted emph=slanted texttt=mono textsf=");

// Letters of another alphabet: what MathML once had attributes for are characters of their own. Some stood elsewhere before.
function alphabet(upper, lower, digit, elsewhere = "") {
  const moved = symbols(elsewhere);
  const from = (base, first, letter) => String.fromCodePoint(base + letter.codePointAt(0) - first.codePointAt(0));
  return (letter) => moved.get(letter) ?? (/[A-Z]/.test(letter) ? from(upper, "A", letter) : /[a-z]/.test(letter) ? from(lower, "a", letter)
    : digit && /\d/.test(letter) ? from(digit, "0", letter) : letter);
}
const upright = (letter) => letter;
const bold = alphabet(0x1d400, 0x1d41a, 0x1d7ce);
const bold_italic = alphabet(0x1d468, 0x1d482, 0x1d7ce);
const script = alphabet(0x1d49c, 0x1d4b6, 0, "B=ℬ E=ℰ F=ℱ H=ℋ I=ℐ L=ℒ M=ℳ R=ℛ e=ℯ g=ℊ o=ℴ");
const bold_greek = (letter) => (/[α-ω]/.test(letter) ? String.fromCodePoint(0x1d736 + letter.codePointAt(0) - 0x3b1) : bold_italic(letter));
const fonts = new Map(Object.entries({ mathrm: upright, mathnormal: null, mathit: alphabet(0x1d434, 0x1d44e, 0, "h=ℎ"), mathbf: bold, mathcal: script,
  mathscr: script, mathbb: alphabet(0x1d538, 0x1d552, 0x1d7d8, "C=ℂ H=ℍ N=ℕ P=ℙ Q=ℚ R=ℝ Z=ℤ"), mathsf: alphabet(0x1d5a0, 0x1d5ba, 0x1d7e2),
  mathfrak: alphabet(0x1d504, 0x1d51e, 0, "C=ℭ H=ℌ I=ℑ R=ℜ Z=ℨ"), mathtt: alphabet(0x1d670, 0x1d68a, 0x1d7f6), boldsymbol: bold_greek, bm: bold_greek,
  bold }));

const formula_token = /\\(?:[a-zA-Z]+|[^])|\s+|[^]/gu;
const most_formula_tokens = 20000;
const most_formula_depth = 40;
class Unreadable extends Error {}

// math("mo", { stretchy: "false" }, "(", node): as make() does it, with attributes.
function math(tag, ...parts) {
  const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag);
  for (const part of parts) {
    if (part instanceof Node || typeof part === "string") node.append(part);
    else for (const [name, value] of Object.entries(part)) node.setAttribute(name, value);
  }
  return node;
}

const grouped = (nodes) => (nodes.length === 1 ? nodes[0] : math("mrow", ...nodes));
const space = (width) => math("mspace", { width });
const fence_mark = (mark, form) => (mark === "" ? [] : [math("mo", { stretchy: "true", fence: "true", form, ...(mark === "|" && { lspace: "0", rspace: "0" }) }, mark)]);
const operator = (mark) => math("mo", mark);
const tight_operator = (mark) => math("mo", { lspace: "0", rspace: "0", stretchy: "false" }, mark);

// Reads one formula from left to right. What it does not know throws Unreadable: a part of a formula would say something else.
class FormulaReader {
  constructor(source) {
    const tokens = source.match(formula_token) ?? [];
    if (tokens.length > most_formula_tokens) throw new Unreadable();
    Object.assign(this, { tokens_: tokens, at_: 0, depth_: 0, font_: null, ends_: [], has_limits_: new Set() });
  }

  whole() {
    const rows = this.rows_();
    if (this.peek_() !== undefined) throw new Unreadable();
    return rows.length === 1 && rows[0].length === 1 ? rows[0][0] : [this.table_(rows, "align")];
  }

  // The next token that is no blank; undefined at the end.
  peek_() {
    while (/^\s/.test(this.tokens_[this.at_] ?? "")) ++this.at_;
    return this.tokens_[this.at_];
  }

  take_(expected) {
    const token = this.peek_();
    if (token === undefined || (expected !== undefined && token !== expected)) throw new Unreadable();
    ++this.at_;
    return token;
  }

  next_is_(token) {
    if (this.peek_() !== token) return false;
    ++this.at_;
    return true;
  }

  // The nodes up to one of these tokens, which is left there.
  row_(...ends) {
    const outer = this.ends_;
    if (++this.depth_ > most_formula_depth) throw new Unreadable();
    this.ends_ = ends;
    const nodes = [];
    for (let token = this.peek_(); token !== undefined && !ends.includes(token); token = this.peek_()) nodes.push(...this.scripted_(nodes.length === 0));
    this.ends_ = outer;
    --this.depth_;
    return nodes;
  }

  group_() {
    this.take_("{");
    const nodes = this.row_("}");
    this.take_("}");
    return nodes;
  }

  // {a group} or the one sign that stands there.
  argument_() {
    if (this.peek_() === "{") return grouped(this.group_());
    if (++this.depth_ > most_formula_depth) throw new Unreadable();
    const nodes = this.atom_(true);
    --this.depth_;
    return grouped(nodes);
  }

  // [what may be left out]
  option_() {
    if (!this.next_is_("[")) return null;
    const nodes = this.row_("]");
    this.take_("]");
    return grouped(nodes);
  }

  // The characters of {a group}, as they are.
  raw_() {
    this.take_("{");
    let text = "";
    for (let depth = 1; ;) {
      const token = this.tokens_[this.at_++];
      if (token === undefined) throw new Unreadable();
      depth += token === "{" ? 1 : token === "}" ? -1 : 0;
      if (depth === 0) return text;
      text += token;
    }
  }

  // A sign with what stands above and below it on its right; nothing for what only says how to set.
  scripted_(is_first) {
    const is_bare = ["^", "_"].includes(this.peek_());
    const nodes = is_bare ? [math("mrow")] : this.atom_(false, is_first);
    let [above, below, limits] = [null, null, this.has_limits_.has(nodes.at(-1))];
    for (;;) {
      if (this.next_is_("\\limits")) limits = true;
      else if (this.next_is_("\\nolimits")) limits = false;
      else if (this.peek_() === "'" && above === null) above = this.primes_();
      else if (above === null && this.next_is_("^")) above = this.argument_();
      else if (below === null && this.next_is_("_")) below = this.argument_();
      else break;
    }
    if (["^", "_"].includes(this.peek_())) throw new Unreadable();
    if (above === null && below === null) return nodes;
    const base = nodes.pop() ?? math("mrow");
    const tag = limits ? (above === null ? "munder" : below === null ? "mover" : "munderover") : above === null ? "msub" : below === null ? "msup" : "msubsup";
    return [...nodes, math(tag, base, ...[below, above].filter(Boolean))];
  }

  primes_() {
    let primes = "";
    while (this.next_is_("'")) primes += "′";
    const nodes = [math("mo", { lspace: "0", rspace: "0" }, primes)];
    if (this.next_is_("^")) nodes.push(this.argument_());
    return grouped(nodes);
  }

  // One sign, group or command with its arguments, as a list of nodes.
  atom_(is_argument, is_first = true) {
    const token = this.take_();
    if (token === "{") {
      --this.at_;
      const nodes = this.group_();
      // Between braces a sign is no operator any more, as the comma in 1{,}000.
      if (nodes.length === 1 && nodes[0].localName === "mo") for (const side of ["lspace", "rspace"]) nodes[0].setAttribute(side, "0");
      return [math("mrow", ...nodes)];
    }
    if (/^\d/.test(token)) return [this.number_(token, is_argument)];
    if (/^\p{L}/u.test(token)) return [this.letter_(token, is_argument)];
    if (spaces.has(token)) return [space(spaces.get(token))];
    if (silent.has(token)) return [];
    if (escaped_signs.has(token)) return [tight_operator(token[1])];
    if (token[0] === "\\") return this.command_(token, is_argument, is_first);
    if ("&^_}$".includes(token)) throw new Unreadable();
    if (token === "-") return [operator("−")];
    if (token === "*") return [operator("∗")];
    if (token === ":") return [math("mo", { lspace: ".278em", rspace: ".278em" }, ":")];
    return ["/|.()[]".includes(token) ? tight_operator(token) : math("mo", { stretchy: "false" }, token)];
  }

  number_(digit, is_argument) {
    let text = digit;
    const next = (ahead = 0) => this.tokens_[this.at_ + ahead] ?? "";
    while (!is_argument && (/^\d/.test(next()) || (next() === "." && /^\d/.test(next(1)) && !text.includes(".")))) text += this.tokens_[this.at_++];
    return math("mn", this.font_ ? Array.from(text, this.font_).join("") : text);
  }

  // Letters of a chosen alphabet are a word, others a product.
  letter_(letter, is_argument) {
    if (!this.font_) return math("mi", letter);
    let word = this.font_(letter);
    while (!is_argument && /^[a-zA-Z]/.test(this.tokens_[this.at_] ?? "")) word += this.font_(this.tokens_[this.at_++]);
    return math("mi", { mathvariant: "normal" }, word);
  }

  command_(token, is_argument, is_first) {
    const name = token.slice(1);
    if (letters.has(name)) return [this.letter_(letters.get(name), true)];
    if (upright_letters.has(name)) return [math("mi", { mathvariant: "normal" }, upright_letters.get(name))];
    if (functions.has(name)) return [this.function_(name, is_first)];
    if (limit_functions.has(name)) return [this.limited_(this.function_(limit_functions.get(name), is_first, "true"))];
    if (large_operators.has(name)) return [this.limited_(operator(large_operators.get(name)))];
    if (integrals.has(name)) return [operator(integrals.get(name))];
    if (operators.has(name)) return [operator(operators.get(name))];
    if (fences.has(token)) return [tight_operator(fences.get(token))];
    if (fonts.has(name)) return [this.in_font_(fonts.get(name))];
    if (text_classes.has(name)) return [this.text_(text_classes.get(name))];
    if (accents.has(name)) return [math("mover", { accent: "true" }, this.argument_(), math("mo", { stretchy: "false", ...(name === "vec" && { mathsize: "65%" }) }, accents.get(name)))];
    if (wide_accents.has(name)) return [math("mover", { accent: "true" }, this.argument_(), math("mo", { stretchy: "true" }, wide_accents.get(name)))];
    if (braces.has(name)) return [this.limited_(math(name[0] === "o" ? "mover" : "munder", this.argument_(), math("mo", { stretchy: "true" }, braces.get(name))))];
    if (long_arrows.has(name)) return [this.long_arrow_(long_arrows.get(name))];
    const size = fence_sizes.get(name.replace(/[lrm]$/, ""));
    if (size) return [math("mo", { minsize: size, maxsize: size, stretchy: "true", lspace: "0", rspace: "0" }, this.fence_())];
    const read = Object.hasOwn(structures, name) ? structures[name] : null;
    if (!read) throw new Unreadable();
    return [read(this, name)].flat();
  }

  limited_(node) {
    this.has_limits_.add(node);
    return node;
  }

  function_(name, is_first, movablelimits = "false") {
    const rspace = ["(", "[", "\\left", "^", "_"].includes(this.peek_()) ? "0" : ".167em";
    return math("mo", { form: "prefix", lspace: is_first ? "0" : ".167em", rspace, movablelimits, stretchy: "false" }, name);
  }

  in_font_(font) {
    const outer = this.font_;
    this.font_ = font;
    const node = this.argument_();
    this.font_ = outer;
    return node;
  }

  // Words, in which there may be formulas between dollars.
  text_(class_) {
    const parts = this.raw_().split(/(?<!\\)\$/);
    if (parts.length % 2 === 0) throw new Unreadable();
    return grouped(parts.flatMap((part, index) => {
      if (index % 2 === 1) return new FormulaReader(part).whole();
      const words = part.replace(/\\([%$#&_{}, ])/g, (_, sign) => (sign === "," ? " " : sign));
      if (words.includes("\\")) throw new Unreadable();
      return words === "" ? [] : [math("mtext", class_ ? { class: class_ } : {}, words.replace(/[{}]/g, "").replace(/\s+/g, "\u00a0"))];
    }));
  }

  fence_() {
    const token = this.take_();
    if (!fences.has(token)) throw new Unreadable();
    return fences.get(token);
  }

  long_arrow_(mark) {
    const below = this.option_();
    const padded = (node) => math("mrow", space(".5em"), node, space(".5em"));
    const above = padded(this.argument_());
    return below ? math("munderover", math("mo", { stretchy: "true" }, mark), padded(below), above) : math("mover", math("mo", { stretchy: "true" }, mark), above);
  }

  // Cells between & and rows between \\, up to one of these tokens or the end.
  rows_(...ends) {
    const rows = [[]];
    for (;;) {
      while (this.next_is_("\\hline") || this.next_is_("\\midrule") || this.next_is_("\\toprule") || this.next_is_("\\bottomrule")) rows.at(-1).is_ruled = true;
      rows.at(-1).push(this.row_("&", "\\\\", "\\cr", ...ends));
      if (this.next_is_("&")) continue;
      if (!this.next_is_("\\\\") && !this.next_is_("\\cr")) break;
      if (this.tokens_[this.at_] === "[") this.option_();
      rows.push([]);
    }
    if (rows.length > 1 && rows.at(-1).length === 1 && rows.at(-1)[0].length === 0 && !rows.at(-1).is_ruled) rows.pop();
    return rows;
  }

  // The alignment of each column is "l", "c" or "r"; in an alignment right and left by turns.
  table_(rows, name, columns = "") {
    const is_aligned = aligned.test(name);
    const align_of = (column) => (is_aligned ? (column % 2 ? "l" : "r") : name.includes("cases") ? "l" : columns[column] ?? "c");
    const cell = (nodes, column) => {
      if (is_aligned && column % 2 && nodes[0]?.localName === "mo") nodes[0].setAttribute("form", "infix");
      return math("mtd", { class: `${align_of(column)}${is_aligned ? " tight" : ""}` }, ...nodes);
    };
    return math("mtable", { displaystyle: String(is_aligned || /^(?:gather|equation|multline|dcases)/.test(name)) },
      ...rows.map((cells) => math("mtr", cells.is_ruled ? { class: "ruled" } : {}, ...cells.map(cell))));
  }

  environment_() {
    const name = this.raw_();
    if (!environments.has(name)) throw new Unreadable();
    const has_columns = /^(?:array|subarray|alignat|alignedat)/.test(name);
    const columns = has_columns ? this.raw_().replace(/[^lcr]/g, "") : "";
    if (!has_columns && this.tokens_[this.at_] === "[") this.option_();
    const rows = this.rows_("\\end");
    this.take_("\\end");
    if (this.raw_() !== name) throw new Unreadable();
    const [open = "", close = ""] = environments.get(name).replace(".", " ");
    return math("mrow", ...fence_mark(open.trim(), "prefix"), this.table_(rows, name, columns), ...fence_mark(close, "postfix"));
  }

  left_and_right_() {
    const nodes = [...fence_mark(this.fence_(), "prefix")];
    for (;;) {
      nodes.push(math("mrow", ...this.row_("\\middle", "\\right")));
      if (!this.next_is_("\\middle")) break;
      nodes.push(...fence_mark(this.fence_(), "infix"));
    }
    this.take_("\\right");
    return math("mrow", ...nodes, ...fence_mark(this.fence_(), "postfix"));
  }

  rest_() {
    return this.row_(...this.ends_);
  }
}

const fraction = (reader, ...attributes) => math("mfrac", ...attributes, reader.argument_(), reader.argument_());
const binomial = (reader, ...style) => math("mrow", ...style, ...fence_mark("(", "prefix"), fraction(reader, { linethickness: "0" }), ...fence_mark(")", "postfix"));
const marked = (name) => (reader) => math("mrow", { class: name }, reader.argument_());
const modulo = (reader, ...before) => math("mrow", ...before, math("mi", { mathvariant: "normal" }, "mod"), space(".333em"), reader.argument_());

// Commands that take arguments in ways of their own.
const structures = {
  frac: (reader) => fraction(reader),
  dfrac: (reader) => fraction(reader, { displaystyle: "true" }),
  cfrac: (reader) => fraction(reader, { displaystyle: "true" }),
  tfrac: (reader) => fraction(reader, { displaystyle: "false" }),
  binom: (reader) => binomial(reader),
  dbinom: (reader) => binomial(reader, { displaystyle: "true" }),
  tbinom: (reader) => binomial(reader, { displaystyle: "false" }),
  sqrt: (reader) => {
    const degree = reader.option_();
    return degree ? math("mroot", reader.argument_(), degree) : math("msqrt", reader.argument_());
  },
  overline: marked("over"),
  underline: marked("under"),
  boxed: marked("boxed"),
  cancel: marked("cancel"),
  phantom: (reader) => math("mphantom", reader.argument_()),
  vphantom: (reader) => math("mpadded", { width: "0" }, math("mphantom", reader.argument_())),
  overset: (reader) => {
    const above = reader.argument_();
    return reader.limited_(math("mover", reader.argument_(), above));
  },
  underset: (reader) => {
    const below = reader.argument_();
    return reader.limited_(math("munder", reader.argument_(), below));
  },
  stackrel: (reader) => structures.overset(reader),
  substack: (reader) => {
    reader.take_("{");
    const rows = reader.rows_("}");
    reader.take_("}");
    return reader.table_(rows, "matrix");
  },
  operatorname: (reader) => {
    const has_limits = reader.next_is_("*");
    const name = reader.raw_().replace(/\\[,; ]/g, " ");
    if (!/^[\w\s.-]*$/.test(name)) throw new Unreadable();
    const node = reader.function_(name, false, String(has_limits));
    return has_limits ? reader.limited_(node) : node;
  },
  pmod: (reader) => math("mrow", space("1em"), tight_operator("("), modulo(reader), tight_operator(")")),
  mod: (reader) => modulo(reader, space("1em")),
  bmod: () => math("mo", { lspace: ".222em", rspace: ".222em" }, "mod"),
  not: (reader) => {
    const node = reader.argument_();
    if (node.localName !== "mo") throw new Unreadable();
    node.append("\u0338");
    return node;
  },
  left: (reader) => reader.left_and_right_(),
  begin: (reader) => reader.environment_(),
  displaystyle: (reader) => math("mstyle", { displaystyle: "true" }, ...reader.rest_()),
  color: (reader) => { reader.raw_(); return []; },
  textcolor: (reader) => { reader.raw_(); return reader.argument_(); },
  label: (reader) => { reader.raw_(); return []; },
  tag: (reader) => math("mtext", `\u2003(${reader.raw_()})`),
  hspace: (reader) => {
    const width = reader.raw_();
    if (!/^-?\d{0,3}(?:\.\d{0,3})?(?:em|ex|pt|px)$/.test(width)) throw new Unreadable();
    return space(width);
  },
};

// The formula as an element, or null when it cannot be read.
function formula(source, is_block) {
  try {
    const content = math("mrow", ...new FormulaReader(source).whole());
    if (content.childNodes.length === 0) return null;
    return math("math", is_block ? { display: "block" } : {}, math("semantics", content, math("annotation", { encoding: "application/x-tex" }, source.trim())));
  } catch (problem) {
    if (problem instanceof Unreadable) return null;
    throw problem;
  }
}

// A formula on lines of its own may be wider than the page.
const display_formula = (source) => {
  const node = formula(source, true);
  return node && make("span.formula", { tabIndex: 0, role: "group", ariaLabel: "Formula" }, node);
};

// Of "$5 and $10" the dollars are money: a formula begins and ends beside a sign, and no digit follows it.
function dollar_formula(text, at) {
  for (let end = text.indexOf("$", at + 1); end >= 0; end = text.indexOf("$", end + 1)) {
    if (text[end - 1] === "\\") continue;
    const source = text.slice(at + 1, end);
    if (source === "" || /^\s|\s$/.test(source) || /[\dA-Z_]/.test(text[end + 1] ?? "")) return null;
    const is_prose = /^\d/.test(source) && /\s[a-z]{2,}/i.test(source) && !/[\\^_={}]/.test(source);
    return is_prose ? null : { source, end: end + 1 };
  }
  return { end: -1 };
}
