
// The page: shows texts as the tokenizers cut them, the merges behind a token, and the vocabularies.

const SAMPLE = `Type here: tokenization isn't magic.
In 2024, 1234567 people said "hello" \u2014 \u4f60\u597d, \u043f\u0440\u0438\u0432\u0435\u0442, \u0645\u0631\u062d\u0628\u0627, \ud83d\udc4b\ud83c\udffd!
for (let i = 0; i < 10; i++) {
    console.log("i = " + i);  // indented
}
`;

/// Tokens that a box shows at once; more follow when its end is scrolled into view.
const SHOWN_AT_ONCE = 1500;
/// Characters above which encoding waits until typing pauses, and for how long, in milliseconds.
const MUCH_TEXT = 20_000;
const PAUSE = 120;
/// Height in pixels of a row of the vocabulary, as in the style.
const ROW = 32;
/// Bytes of a token that are shown where space is short.
const SHORT_TEXT = 120;
/// Tokens that are listed as made of a token.
const LISTED = 24;

const byId = id => document.getElementById(id);
const { shared, tokenizers: facts } = JSON.parse(byId("facts").textContent);

/// Makes an element with properties and children. Children may be strings, which never become markup.
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const button = (properties, ...children) => element("button", { type: "button", ...properties }, ...children);

/// A number with narrow spaces between groups of three digits.
const grouped = number => String(number).replace(/\B(?=(?:\d{3})+$)/g, "\u202f");
const counted = (number, unit) => `${grouped(number)} ${unit}${number === 1 ? "" : "s"}`;

/// Ranges of characters that cannot be seen, or that hide or reorder the text around them.
const INVISIBLE = [
  [0x00, 0x1f], [0x7f, 0x9f], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x180e, 0x180e], [0x200b, 0x200f],
  [0x2028, 0x202e], [0x2060, 0x206f], [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xe0000, 0xe0fff],
];
const isInvisible = code => INVISIBLE.some(([first, last]) => code >= first && code <= last);

/// The code point of the UTF-8 character that starts at a place, or -1 if none does.
function codeAt(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return first;
  const length = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length === 0 || at + length > bytes.length) return -1;
  let code = first & (0xff >> (length + 1));
  for (let next = at + 1; next < at + length; next++) {
    if ((bytes[next] & 0xc0) !== 0x80) return -1;
    code = (code << 6) | (bytes[next] & 0x3f);
  }
  const isShortest = code >= [0x80, 0x800, 0x10000][length - 2];
  return isShortest && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? code : -1;
}

/// The text of one byte that is not part of a character, or of a character.
function visibleCharacter(code, byte, space) {
  if (code < 0) return `\\x${byte.toString(16).padStart(2, "0")}`;
  if (code > 0x20 && code < 0x7f && code !== 0x5c) return String.fromCharCode(code);
  const character = String.fromCodePoint(code);
  switch (character) {
    case " ": return space;
    case "\n": return "\u23ce";
    case "\t": return "\u21e5";
    case "\\": return space === " " ? "\\" : "\\\\";
    default: return isInvisible(code) ? `\\u{${code.toString(16)}}` : character;
  }
}

/// The text of the first `most` bytes. What could not be seen is escaped: spaces as `space`, line breaks and tabs by
/// signs, bytes as \xE2. A backslash is doubled where spaces are not spaces.
function visible(bytes, space = "\u2423", most = Infinity) {
  let text = "";
  for (let at = 0; at < Math.min(bytes.length, most); ) {
    const code = codeAt(bytes, at);
    text += visibleCharacter(code, bytes[at], space);
    at += widthOf(code);
  }
  return bytes.length > most ? `${text}\u2026` : text;
}

/// The text of bytes as nodes, for a box in which spaces and line breaks have their own form. A line break is shown by
/// its sign, and breaks the line. A byte that is not part of a character is a small number.
function drawn(bytes) {
  const nodes = [];
  let plain = "";
  const sign = (className, text) => {
    nodes.push(plain, element("span", { className }, text));
    plain = "";
  };
  for (let at = 0; at < bytes.length; ) {
    const code = codeAt(bytes, at);
    if (code < 0) sign("byte", bytes[at].toString(16).padStart(2, "0"));
    else if (code === 0x0a) {
      sign("sign", "\u23ce");
      plain = "\n";
    } else plain += visibleCharacter(code, bytes[at], " ");
    at += widthOf(code);
  }
  return [...nodes, plain].filter(node => node !== "");
}

/// The number of bytes of a code point in UTF-8; 1 for a byte without one.
const widthOf = code => (code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);

/// The tokenizers, their last encoded texts, and what is chosen.
const tokenizers = [];
const panels = [];
const state = { view: "text", chosen: 0, sort: "id", isDown: false, ids: [], active: 0 };

const bytesOf = (tokenizer, id) => tokenizer.vocabulary.bytesOf(id);
const isSpecial = (tokenizer, id) => tokenizer.added.get(id)?.special === true;
const key = number => element("span", { className: `key k${number}` }, facts.length > 1 ? String(number + 1) : "");

/// The names of the tokenizers: the last parts of their paths if these differ.
const labels = (() => {
  const names = facts.map(({ name }) => name);
  const last = names.map(name => name.split("/").filter(part => part !== "").pop() ?? name);
  return (new Set(last).size === last.length ? last : names).map(name => visible(UTF8.encode(name), " "));
})();

/// Reads the tables and shows everything.
function start() {
  const classes = new CharacterClasses(shared.classes);
  facts.forEach((of, number) => {
    const table = byId(`table-${number}`);
    tokenizers.push(new Tokenizer(of, fromBase64(table.textContent), shared, classes));
    table.remove();
  });
  tokenizers.forEach((tokenizer, number) => panels.push(new Panel(tokenizer, number)));
  byId("results").append(...panels.map(panel => panel.box));
  byId("results").classList.add(`n${panels.length}`);
  listenToText();
  prepareVocabulary();
  showScripts();
  if (byId("text").value === "") byId("text").value = SAMPLE;
  encodeAll();
  document.body.dataset.ready = performance.now().toFixed(0);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const decoded = atob(text);
  const bytes = new Uint8Array(decoded.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = decoded.charCodeAt(at);
  return bytes;
}

/// Encodes the text when it changes, and switches what is shown.
function listenToText() {
  let waiting = 0;
  byId("text").addEventListener("input", () => {
    clearTimeout(waiting);
    if (byId("text").value.length > MUCH_TEXT) waiting = setTimeout(encodeAll, PAUSE);
    else encodeAll();
  });
  byId("special").addEventListener("change", encodeAll);
  byId("special").parentElement.hidden = !facts.some(({ added }) => added.some(({ special }) => special));
  for (const view of ["text", "ids"]) {
    byId(`show-${view}`).addEventListener("click", () => {
      state.view = view;
      for (const other of ["text", "ids"]) byId(`show-${other}`).setAttribute("aria-pressed", other === view);
      panels.forEach(panel => panel.show());
    });
  }
}

/// Encodes the text by all tokenizers.
function encodeAll() {
  const text = byId("text").value;
  const bytes = UTF8.encode(text).length;
  const characters = Array.from(text).length;
  byId("size").textContent = `${counted(characters, "character")}, ${counted(bytes, "byte")}`;
  panels.forEach(panel => panel.encode(text, byId("special").checked, bytes, characters));
  const shown = panels.filter(panel => panel.tokenizer.encodes && panel.problem === "");
  const fewest = Math.min(...shown.map(panel => panel.ids.length));
  for (const panel of panels) panel.compare(fewest, shown.length > 1);
}

/// A tokenizer's view of the text: its figures and its tokens.
class Panel {
  constructor(tokenizer, number) {
    this.tokenizer = tokenizer;
    this.ids = [];
    /// The end of each token in the bytes of all tokens.
    this.ends = [];
    this.problem = tokenizer.encodes ? "" : tokenizer.facts.notice;
    this.count = element("strong");
    this.figures = element("span", { className: "soft rates" });
    this.notice = element("p", { className: "notice" });
    this.tokens = element("div", {
      className: "tokens cut-text", tabIndex: 0, role: "group",
      "aria-label": `Tokens of ${tokenizer.facts.name}; arrow keys move, Enter shows a token`,
    });
    const name = element("h3", {}, key(number), element("span", { className: "name", title: tokenizer.facts.name }, labels[number]));
    this.box = element("section", { className: "panel" }, name, element("p", { className: "figures" }, this.count, " ", this.figures), this.notice, this.tokens);
    this.more = new IntersectionObserver(seen => { if (seen.some(one => one.isIntersecting)) this.append(); }, { root: this.tokens, rootMargin: "200px" });
    this.listen(number);
  }

  listen(number) {
    this.tokens.addEventListener("click", event => {
      const at = indexOf(event.target);
      if (at >= 0) this.open(at, number);
    });
    this.tokens.addEventListener("pointerover", event => {
      const at = indexOf(event.target);
      if (at >= 0 && event.pointerType !== "touch") this.point(at, event.target);
    });
    this.tokens.addEventListener("pointerleave", () => unpoint());
    this.tokens.addEventListener("blur", () => unpoint());
    this.tokens.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowDown: 10, ArrowLeft: -1, ArrowUp: -10, Home: -Infinity, End: Infinity }[event.key];
      if (step !== undefined && this.ids.length > 0) {
        event.preventDefault();
        const from = this.current ?? (step > 0 ? -1 : 0);
        this.move(Math.max(0, Math.min(this.ids.length - 1, from + step)));
      } else if (event.key === "Enter" && this.current !== undefined) {
        this.open(this.current, number);
      }
    });
  }

  /// Encodes a text.
  encode(text, findSpecial, bytes, characters) {
    [this.ids, this.ends, this.current] = [[], [], undefined];
    let missing = 0;
    if (this.tokenizer.encodes) {
      this.problem = "";
      try {
        ({ ids: this.ids, missing } = this.tokenizer.encode(text, findSpecial));
      } catch (error) {
        this.problem = error.message;
      }
    }
    let end = 0;
    this.ends = this.ids.map(id => (end += this.tokenizer.vocabulary.lengths[id]));
    const many = this.ids.length;
    this.count.textContent = this.problem === "" ? counted(many, "token") : "no tokens";
    this.figures.textContent = many === 0 ? "" :
      `${(bytes / many).toFixed(2)} bytes, ${(characters / many).toFixed(2)} characters per token`;
    const unknown = this.tokenizer.facts.rules?.unknown;
    const fate = unknown ? `replaced by ${visible(UTF8.encode(unknown.text), " ")}` : "dropped";
    const dropped = missing > 0 ? `${counted(missing, "byte")} of the text ${missing === 1 ? "has" : "have"} no token: ${fate}.` : "";
    const cannot = this.tokenizer.encodes ? this.problem : `This page cannot encode by this tokenizer, and shows its vocabulary alone: ${this.problem}.`;
    this.notice.textContent = cannot || dropped;
    this.show();
  }

  /// Marks the number of tokens if no tokenizer has fewer.
  compare(fewest, isCompared) {
    this.count.classList.toggle("best", isCompared && this.ids.length === fewest);
    if (isCompared && this.ids.length > fewest && fewest > 0) {
      this.count.append(element("span", { className: "soft" }, ` +${(100 * this.ids.length / fewest - 100).toFixed(1)}\u202f%`));
    }
  }

  /// Shows the first tokens.
  show() {
    this.more.disconnect();
    this.tokens.replaceChildren();
    this.tokens.classList.toggle("ids", state.view === "ids");
    // Not at once, which would lay the whole page out in between.
    requestAnimationFrame(() => { this.tokens.scrollTop = 0; });
    this.shown = 0;
    this.append();
  }

  /// Shows more tokens.
  append() {
    const end = Math.min(this.ids.length, this.shown + SHOWN_AT_ONCE);
    const added = document.createDocumentFragment();
    for (; this.shown < end; this.shown++) added.append(this.chip(this.shown), state.view === "ids" ? " " : "");
    this.end?.remove();
    this.tokens.append(added);
    this.more.disconnect();
    if (end < this.ids.length) {
      this.end = element("div", { className: "soft" }, `${grouped(this.ids.length - end)} more`);
      this.tokens.append(this.end);
      this.more.observe(this.end);
    }
  }

  /// The box of a token.
  chip(at) {
    const id = this.ids[at];
    const bytes = bytesOf(this.tokenizer, id);
    const chip = element("span", { className: `token c${at % 4}` });
    chip.dataset.at = at;
    if (isSpecial(this.tokenizer, id)) chip.classList.add("special");
    if (state.view === "ids") {
      chip.textContent = id;
      return chip;
    }
    chip.append(...drawn(bytes));
    return chip;
  }

  /// Moves the cursor to a token.
  move(at) {
    while (this.shown <= at && this.shown < this.ids.length) this.append();
    this.current = at;
    const chip = this.tokens.querySelector(`[data-at="${at}"]`);
    chip.scrollIntoView({ block: "nearest" });
    this.point(at, chip);
  }

  /// Shows what a token is, and marks it and the tokens of the same text in the other panels.
  point(at, chip) {
    unpoint();
    const [from, to] = [at > 0 ? this.ends[at - 1] : 0, this.ends[at]];
    const length = this.ends[this.ends.length - 1];
    for (const panel of panels) {
      if (panel.ends[panel.ends.length - 1] !== length) continue;
      for (let other = firstAbove(panel.ends, from); other < panel.ends.length; other++) {
        if (other > 0 && panel.ends[other - 1] >= to) break;
        panel.tokens.querySelector(`[data-at="${other}"]`)?.classList.add("pointed");
      }
    }
    chip.classList.add("pointed");
    hint(chip, this.tokenizer, this.ids[at]);
  }

  open(at, number) {
    this.current = at;
    openToken(number, this.ids[at], this.tokens);
  }
}

/// The place of the token to which an element belongs, or -1.
function indexOf(target) {
  const chip = target.closest?.("[data-at]");
  return chip ? Number(chip.dataset.at) : -1;
}

/// The index of the first number above a bound in an ascending list.
function firstAbove(numbers, bound) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] > bound) high = middle;
    else low = middle + 1;
  }
  return low;
}

function unpoint() {
  document.querySelectorAll(".pointed").forEach(chip => chip.classList.remove("pointed"));
  byId("hint").hidden = true;
}

/// Shows id and bytes of a token beside an element.
function hint(beside, tokenizer, id) {
  const { vocabulary } = tokenizer;
  const bytes = bytesOf(tokenizer, id);
  const rank = vocabulary.madeBy[id] >= 0 ? `rank ${grouped(vocabulary.ranks[vocabulary.madeBy[id]])}` : "no merge";
  const box = byId("hint");
  box.replaceChildren(
    element("strong", {}, `id ${id}`), element("code", {}, visible(bytes, "\u2423", SHORT_TEXT)),
    element("span", { className: "soft" }, `${counted(bytes.length, "byte")}, ${isSpecial(tokenizer, id) ? "special" : rank}`));
  box.hidden = false;
  const at = beside.getClientRects()[0];
  if (!at) return;
  const left = Math.max(4, Math.min(at.left, innerWidth - box.offsetWidth - 4));
  const isAbove = at.bottom + box.offsetHeight + 8 > innerHeight;
  box.style.left = `${left}px`;
  box.style.top = `${isAbove ? at.top - box.offsetHeight - 4 : at.bottom + 4}px`;
}

/// Where the focus was before the sheet was opened.
let openedFrom = null;

/// Shows a token: its facts, the merges that make it, and the tokens that are made of it.
function openToken(number, id, from) {
  const tokenizer = tokenizers[number];
  const { vocabulary } = tokenizer;
  const bytes = bytesOf(tokenizer, id);
  const merge = vocabulary.madeBy[id];
  const sheet = byId("sheet");
  if (from) openedFrom = from;
  unpoint();
  const title = element("h2", {}, key(number), tokenChip(tokenizer, id, SHORT_TEXT), ` id ${id}`);
  const close = button({ className: "close", "aria-label": "Close", title: "Close (Esc)" }, "\u00d7");
  close.addEventListener("click", closeSheet);
  const figures = [
    [counted(bytes.length, "byte"), `${Array.from(bytes.subarray(0, 32), byte => byte.toString(16).padStart(2, "0")).join(" ")}${bytes.length > 32 ? " \u2026" : ""}`],
    ["rank", merge >= 0 ? grouped(vocabulary.ranks[merge]) : "none: no merge makes it"],
    ["script", shared.scripts[vocabulary.scripts[id]]],
  ];
  const added = tokenizer.added.get(id);
  if (added) {
    const flags = ["special", "single_word", "lstrip", "rstrip", "normalized"].filter(flag => added[flag]);
    figures.push(["added token", flags.join(", ") || "not special"]);
  }
  if (vocabulary.counts && merge >= 0) {
    figures.push(["count", grouped(vocabulary.counts[merge])]);
    const use = finalUses(tokenizer)?.[id];
    figures.push(["final use", use >= 0 ? grouped(use) : "unknown"]);
  }
  const list = element("dl", {}, ...figures.map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, value))));
  const parts = [element("div", { className: "sheet-head" }, title, close), list];
  if (merge >= 0 && bytes.length <= SHORT_TEXT) parts.push(element("h3", {}, "Merges"), mergeTree(number, id));
  const made = madeOf(vocabulary, id);
  if (made.length > 0) {
    const shown = made.slice(0, LISTED).map(other => tokenButton(number, other));
    const rest = made.length > LISTED ? ` and ${grouped(made.length - LISTED)} more` : "";
    parts.push(element("h3", {}, `Part of ${counted(made.length, "token")}`), element("p", { className: "made" }, ...shown, rest));
  }
  sheet.replaceChildren(...parts);
  sheet.hidden = false;
  sheet.scrollTop = 0;
  sheet.focus({ preventScroll: true });
}

function closeSheet() {
  byId("sheet").hidden = true;
  openedFrom?.focus({ preventScroll: true });
}

addEventListener("keydown", event => {
  if (event.key !== "Escape") return;
  unpoint();
  if (!byId("sheet").hidden) closeSheet();
});
addEventListener("scroll", () => { byId("hint").hidden = true; }, { passive: true, capture: true });

/// A token in a box.
function tokenChip(tokenizer, id, most) {
  const chip = element("span", { className: "token" }, visible(bytesOf(tokenizer, id), "\u2423", most));
  if (isSpecial(tokenizer, id)) chip.classList.add("special");
  return chip;
}

/// A token in a box that opens it.
function tokenButton(number, id, className = "token") {
  const tokenizer = tokenizers[number];
  const made = button({ className, title: `id ${id}` }, visible(bytesOf(tokenizer, id), "\u2423", 40) || "(empty)");
  made.addEventListener("click", () => openToken(number, id));
  return made;
}

/// The tokens of the merges that use a token, by rank, without repetition.
function madeOf(vocabulary, id) {
  const made = new Set();
  for (let merge = 0; merge < vocabulary.result.length; merge++) {
    if (vocabulary.left[merge] === id || vocabulary.right[merge] === id) made.add(vocabulary.result[merge]);
  }
  return Array.from(made);
}

/// The tree of merges of a token: the token on top, its parts below it, and single bytes at the bottom. Each stands
/// above the bytes that it covers.
function mergeTree(number, id) {
  const { vocabulary } = tokenizers[number];
  const bricks = [];
  let deepest = 0;
  const place = (token, from, depth) => {
    const merge = vocabulary.madeBy[token];
    const brick = tokenButton(number, token, depth === 0 ? "brick root" : "brick");
    const width = Math.max(1, vocabulary.lengths[token]);
    brick.style.gridColumn = `${from + 1} / span ${width}`;
    const rank = merge >= 0 ? `rank ${grouped(vocabulary.ranks[merge])}` : "no merge";
    brick.append(element("small", {}, merge >= 0 ? String(vocabulary.ranks[merge]) : ""));
    brick.title = `id ${token}, ${rank}`;
    brick.setAttribute("aria-label", `${visible(vocabulary.bytesOf(token), " ")}, id ${token}, ${rank}`);
    bricks.push([brick, depth]);
    deepest = Math.max(deepest, depth);
    if (merge < 0) return;
    place(vocabulary.left[merge], from, depth + 1);
    place(vocabulary.right[merge], from + vocabulary.lengths[vocabulary.left[merge]], depth + 1);
  };
  place(id, 0, 0);
  for (const [brick, depth] of bricks) brick.style.gridRow = depth + 1;
  const tree = element("div", { className: "tree" }, ...bricks.map(([brick]) => brick));
  const columns = vocabulary.lengths[id];
  // A byte that is not a character alone has a longer text.
  const least = vocabulary.bytesOf(id).some(byte => byte > 127) ? 2.3 : 1.4;
  tree.style.gridTemplateColumns = `repeat(${columns}, minmax(${least}rem, 1fr))`;
  tree.style.maxWidth = `${4.5 * columns}rem`;
  return element("div", { className: "scroll" }, tree);
}

/// The columns of the vocabulary: a name, whether it exists, the value of a token, and how that is shown.
const COLUMNS = [
  { name: "id", of: (tokenizer, id) => id, show: (tokenizer, id) => String(id) },
  { name: "token", show: (tokenizer, id) => tokenChip(tokenizer, id, SHORT_TEXT), isText: true },
  { name: "bytes", of: ({ vocabulary }, id) => vocabulary.lengths[id] },
  { name: "rank", of: ({ vocabulary }, id) => (vocabulary.madeBy[id] >= 0 ? vocabulary.ranks[vocabulary.madeBy[id]] : NaN) },
  { name: "count", exists: ({ vocabulary }) => vocabulary.counts !== null, of: ({ vocabulary }, id) => (vocabulary.madeBy[id] >= 0 ? vocabulary.counts[vocabulary.madeBy[id]] : NaN) },
  { name: "final use", exists: tokenizer => finalUses(tokenizer) !== null, of: (tokenizer, id) => finalUses(tokenizer)[id] },
  { name: "script", of: ({ vocabulary }, id) => vocabulary.scripts[id], show: ({ vocabulary }, id) => shared.scripts[vocabulary.scripts[id]] },
];

/// The final uses of all tokens, computed once; null if they are not known.
function finalUses(tokenizer) {
  tokenizer.finalUses ??= tokenizer.vocabulary.counts === null ? null : tokenizer.vocabulary.finalUses();
  return tokenizer.finalUses;
}

function prepareVocabulary() {
  const chosen = byId("chosen");
  chosen.hidden = facts.length < 2;
  facts.forEach((of, number) => {
    const choice = button({ "aria-pressed": number === 0, title: of.name }, key(number), labels[number]);
    choice.addEventListener("click", () => choose(number));
    chosen.append(choice);
  });
  shared.scripts.forEach((name, number) => byId("script").append(element("option", { value: String(number) }, name)));
  byId("search").addEventListener("input", list);
  byId("script").addEventListener("change", list);
  const rows = byId("rows");
  rows.addEventListener("scroll", drawRows, { passive: true });
  rows.addEventListener("click", event => {
    const row = event.target.closest("[data-row]");
    if (!row) return;
    state.active = Number(row.dataset.row);
    drawRows();
    openToken(state.chosen, state.ids[state.active], rows);
  });
  rows.addEventListener("keydown", moveRow);
  addEventListener("resize", drawRows);
  choose(0);
}

/// Shows the vocabulary of a tokenizer.
function choose(number) {
  state.chosen = number;
  Array.from(byId("chosen").children, (choice, other) => choice.setAttribute("aria-pressed", other === number));
  const tokenizer = tokenizers[number];
  const columns = COLUMNS.filter(column => column.exists?.(tokenizer) ?? true);
  if (!columns.some(column => column.name === state.sort)) [state.sort, state.isDown] = ["id", false];
  byId("vocabulary").className = `vocabulary ${columns.length > 5 ? "counted" : ""}`;
  byId("columns").replaceChildren(...columns.map(column => {
    const head = button({}, column.name);
    head.addEventListener("click", () => {
      state.isDown = state.sort === column.name ? !state.isDown : !["id", "token", "rank", "script"].includes(column.name);
      state.sort = column.name;
      list();
    });
    const cell = element("div", { role: "columnheader", className: `cell ${className(column)}` }, head);
    cell.dataset.column = column.name;
    return cell;
  }));
  state.columns = columns;
  list();
}

const className = column => `of-${column.name.replace(" ", "-")}`;

/// Lists the tokens that are searched for, in the chosen order.
function list() {
  const tokenizer = tokenizers[state.chosen];
  const { vocabulary } = tokenizer;
  const script = byId("script").value;
  const matches = searched(vocabulary, byId("search").value);
  const ids = [];
  for (let id = 0; id < vocabulary.limit; id++) {
    if (vocabulary.isToken[id] && (script === "" || vocabulary.scripts[id] === Number(script)) && matches(id)) ids.push(id);
  }
  state.ids = sorted(tokenizer, ids);
  for (const cell of byId("columns").children) {
    const order = cell.dataset.column === state.sort ? (state.isDown ? "descending" : "ascending") : "none";
    cell.setAttribute("aria-sort", order);
  }
  byId("found").textContent = counted(ids.length, "token");
  byId("space").style.height = `${ids.length * ROW}px`;
  byId("rows").scrollTop = 0;
  state.active = 0;
  drawRows();
}

/// Returns a function that says whether a token is searched for: by its id after `#`, or by a part of its text. Case
/// matters if the text has an upper case letter of ASCII.
function searched(vocabulary, query) {
  if (/^#\d+$/.test(query)) return id => id === Number(query.slice(1));
  const wanted = UTF8.encode(query);
  if (wanted.length === 0) return () => true;
  const { bytes, starts, lengths } = vocabulary;
  const folds = !/[A-Z]/.test(query);
  const fold = byte => (folds && byte >= 65 && byte <= 90 ? byte + 32 : byte);
  return id => {
    for (let at = starts[id]; at + wanted.length <= starts[id] + lengths[id]; at++) {
      let same = 0;
      while (same < wanted.length && fold(bytes[at + same]) === wanted[same]) same++;
      if (same === wanted.length) return true;
    }
    return false;
  };
}

/// The ids in the chosen order. Tokens without a value come last, and equal ones by id.
function sorted(tokenizer, ids) {
  const column = COLUMNS.find(one => one.name === state.sort);
  const sign = state.isDown ? -1 : 1;
  if (column.isText) return ids.sort((one, other) => sign * compareBytes(tokenizer.vocabulary, one, other) || one - other);
  const values = new Float64Array(tokenizer.vocabulary.limit);
  for (const id of ids) {
    const value = column.of(tokenizer, id);
    values[id] = Number.isNaN(value) ? Infinity : sign * value;
  }
  return ids.sort((one, other) => (values[one] === values[other] ? one - other : values[one] - values[other]));
}

function compareBytes({ bytes, starts, lengths }, one, other) {
  const length = Math.min(lengths[one], lengths[other]);
  for (let at = 0; at < length; at++) {
    const difference = bytes[starts[one] + at] - bytes[starts[other] + at];
    if (difference !== 0) return difference;
  }
  return lengths[one] - lengths[other];
}

/// Draws the rows that are in view.
function drawRows() {
  const rows = byId("rows");
  const tokenizer = tokenizers[state.chosen];
  const first = Math.max(0, Math.floor(rows.scrollTop / ROW) - 4);
  const last = Math.min(state.ids.length, Math.ceil((rows.scrollTop + rows.clientHeight) / ROW) + 4);
  const drawn = [];
  for (let at = first; at < last; at++) {
    const id = state.ids[at];
    const cells = state.columns.map(column => {
      const value = column.of?.(tokenizer, id);
      const shown = column.show?.(tokenizer, id) ?? (Number.isNaN(value) ? "" : grouped(value));
      return element("div", { role: "gridcell", className: `cell ${className(column)}` }, shown);
    });
    const row = element("div", { role: "row", className: "row", id: `row-${at}` }, ...cells);
    row.dataset.row = at;
    row.style.top = `${at * ROW}px`;
    if (at === state.active) row.setAttribute("aria-selected", "true");
    drawn.push(row);
  }
  byId("space").replaceChildren(...drawn);
  rows.setAttribute("aria-activedescendant", `row-${state.active}`);
}

/// Moves the cursor in the vocabulary by keys.
function moveRow(event) {
  const rows = byId("rows");
  const page = Math.max(1, Math.floor(rows.clientHeight / ROW) - 1);
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (step !== undefined) {
    event.preventDefault();
    state.active = Math.max(0, Math.min(state.ids.length - 1, state.active + step));
    const top = state.active * ROW;
    if (top < rows.scrollTop) rows.scrollTop = top;
    if (top + ROW > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + ROW - rows.clientHeight;
    drawRows();
  } else if (event.key === "Enter" && state.ids.length > 0) {
    openToken(state.chosen, state.ids[state.active], rows);
  }
}

/// Shows how many tokens each vocabulary has of each script, and their mean length.
function showScripts() {
  const sums = tokenizers.map(({ vocabulary }) => {
    const sum = shared.scripts.map(() => ({ tokens: 0, bytes: 0 }));
    for (let id = 0; id < vocabulary.limit; id++) {
      if (!vocabulary.isToken[id]) continue;
      sum[vocabulary.scripts[id]].tokens++;
      sum[vocabulary.scripts[id]].bytes += vocabulary.lengths[id];
    }
    return sum;
  });
  const sizes = sums.map(of => of.reduce((sum, { tokens }) => sum + tokens, 0));
  const most = Math.max(...sums.flatMap((of, number) => of.map(({ tokens }) => tokens / sizes[number])));
  const all = script => sums.reduce((sum, of) => sum + of[script].tokens, 0);
  const order = shared.scripts.map((_, script) => script).filter(script => all(script) > 0).sort((one, other) => all(other) - all(one));
  const heads = facts.map((of, number) => element("th", { scope: "col", colSpan: 3 }, key(number), labels[number]));
  const below = facts.flatMap(() => ["tokens", "share", "bytes each"].map(label => element("th", { scope: "col", className: "number soft" }, label)));
  const rows = order.map(script => {
    const name = button({ className: "link" }, shared.scripts[script]);
    name.addEventListener("click", () => {
      byId("script").value = String(script);
      list();
      byId("rows").focus();
    });
    const cells = sums.flatMap((of, number) => {
      const { tokens, bytes } = of[script];
      const share = tokens / sizes[number];
      const bar = element("span", { className: `bar k${number}` });
      bar.style.width = `${100 * share / most}%`;
      bar.hidden = tokens === 0;
      return [
        element("td", { className: "number" }, grouped(tokens), bar), element("td", { className: "number" }, tokens > 0 ? `${(100 * share).toFixed(1)}\u202f%` : ""),
        element("td", { className: "number" }, tokens > 0 ? (bytes / tokens).toFixed(1) : ""),
      ];
    });
    return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
  });
  const head = facts.length > 1 ? [element("tr", {}, element("td"), ...heads)] : [];
  byId("scripts").replaceChildren(element("thead", {}, ...head, element("tr", {}, element("td"), ...below)), element("tbody", {}, ...rows));
}

// The page is painted before the tables are read.
requestAnimationFrame(() => setTimeout(start));
