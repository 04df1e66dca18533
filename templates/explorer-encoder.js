// Encodes text as tokenmill does. Knows nothing of the page.
//
// A tokenizer is read from its table of tokens and merges, which src/run/explore.rs describes, and from its rules. Texts
// are strings without lone surrogates, and tokens are ids.

/// Reads numbers of variable length, one after another.
class NumberReader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let number = byte & 127;
    for (let factor = 128; ; factor *= 128) {
      byte = this.bytes[this.at++];
      number += (byte & 127) * factor;
      if (byte < 128) return number;
    }
  }

  /// A number with a sign: even numbers are above zero, odd ones below.
  nextSigned() {
    return withSign(this.next());
  }
}

function withSign(number) {
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}

/// All tokens and merges of a tokenizer.
///
/// By id: `isToken`, `starts` and `lengths` of the tokens in `bytes`, `scripts`, and in `madeBy` the first merge that
/// makes the token, or -1. By merge, in the order of ranks: `left`, `right`, `result`, `ranks`, and
/// `counts` and `replaced` if these are known.
class Vocabulary {
  constructor(table, scripts, hasCounts) {
    const reader = new NumberReader(table);
    this.limit = reader.next();
    this.isToken = new Uint8Array(this.limit);
    this.starts = new Uint32Array(this.limit);
    this.lengths = new Uint32Array(this.limit);
    this.scripts = new Uint8Array(this.limit);
    this.madeBy = new Int32Array(this.limit).fill(-1);
    const listed = this.readListed(reader);
    this.readMerges(reader, scripts);
    this.counts = hasCounts ? Float64Array.from(this.left, () => reader.next()) : null;
    this.replaced = hasCounts ? this.counts.map(count => count - reader.nextSigned()) : null;
    this.fill(table, listed);
  }

  /// Reads the tokens that have bytes in the table, and returns their ids and the places of their bytes.
  readListed(reader) {
    const listed = [];
    let id = 0;
    for (let left = reader.next(); left > 0; left--) {
      id += reader.next();
      this.scripts[id] = reader.next();
      this.lengths[id] = reader.next();
      this.isToken[id] = 1;
      listed.push([id, reader.at]);
      reader.at += this.lengths[id];
      id++;
    }
    return listed;
  }

  /// Reads the merges. A result that has no bytes in the table has those of its parts.
  readMerges(reader, scripts) {
    const count = reader.next();
    for (const name of ["left", "right", "result", "ranks"]) this[name] = new Int32Array(count);
    let expected = 0;
    let rank = -1;
    for (let merge = 0; merge < count; merge++) {
      const head = reader.next();
      const rest = Math.floor(head / scripts);
      const result = expected + withSign(Math.floor(rest / 2));
      const left = reader.next();
      const right = reader.next();
      if (rest % 2 === 0) rank++;
      this.left[merge] = left;
      this.right[merge] = right;
      this.result[merge] = result;
      this.ranks[merge] = rank;
      if (this.madeBy[result] < 0) this.madeBy[result] = merge;
      if (!this.isToken[result]) {
        this.isToken[result] = 1;
        this.lengths[result] = this.lengths[left] + this.lengths[right];
      }
      this.scripts[result] = head % scripts;
      expected = result + 1;
    }
  }

  /// Writes the bytes of all tokens one after another, by ascending id.
  fill(table, listed) {
    let end = 0;
    for (let id = 0; id < this.limit; id++) {
      this.starts[id] = end;
      end += this.lengths[id];
    }
    this.bytes = new Uint8Array(end);
    const isFilled = new Uint8Array(this.limit);
    for (const [id, at] of listed) {
      this.bytes.set(table.subarray(at, at + this.lengths[id]), this.starts[id]);
      isFilled[id] = 1;
    }
    for (let merge = 0; merge < this.result.length; merge++) {
      const result = this.result[merge];
      if (isFilled[result]) continue;
      const [left, right, start] = [this.left[merge], this.right[merge], this.starts[result]];
      this.bytes.copyWithin(start, this.starts[left], this.starts[left] + this.lengths[left]);
      this.bytes.copyWithin(start + this.lengths[left], this.starts[right], this.starts[right] + this.lengths[right]);
      isFilled[result] = 1;
    }
  }

  /// The bytes of a token.
  bytesOf(id) {
    return this.bytes.subarray(this.starts[id], this.starts[id] + this.lengths[id]);
  }

  /// How often each token is left in the text of the training after all merges: what its merge replaced, without what
  /// the merges that use it replaced. NaN for tokens that no merge makes.
  finalUses() {
    const uses = new Float64Array(this.limit).fill(NaN);
    this.madeBy.forEach((merge, id) => { if (merge >= 0) uses[id] = 0; });
    for (let merge = 0; merge < this.result.length; merge++) {
      uses[this.result[merge]] += this.replaced[merge];
      uses[this.left[merge]] -= this.replaced[merge];
      uses[this.right[merge]] -= this.replaced[merge];
    }
    return uses;
  }
}

/// A random odd number, so that nobody can make a tokenizer whose keys collide.
function randomFactor() {
  return Math.floor(Math.random() * 2 ** 31) * 2 + 1;
}

/// Returns a table of -1, at least twice as long as there are keys, and the shift that makes an index of a hash.
function hashSlots(keys) {
  const bits = Math.ceil(Math.log2(Math.max(4, 2 * keys)));
  return [new Int32Array(2 ** bits).fill(-1), 32 - bits];
}

/// Finds merges by their pairs.
class PairTable {
  constructor(vocabulary) {
    this.vocabulary = vocabulary;
    this.factors = [randomFactor(), randomFactor()];
    const { left, right } = vocabulary;
    [this.slots, this.shift] = hashSlots(left.length);
    this.mask = this.slots.length - 1;
    for (let merge = 0; merge < left.length; merge++) {
      let slot = this.slotOf(left[merge], right[merge]);
      while (this.slots[slot] >= 0) slot = (slot + 1) & this.mask;
      this.slots[slot] = merge;
    }
  }

  slotOf(left, right) {
    const mixed = Math.imul(left, this.factors[0]) + Math.imul(right, this.factors[1]);
    return Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> this.shift;
  }

  /// The merge of a pair, or -1.
  find(left, right) {
    const lefts = this.vocabulary.left;
    const rights = this.vocabulary.right;
    for (let slot = this.slotOf(left, right); ; slot = (slot + 1) & this.mask) {
      const merge = this.slots[slot];
      if (merge < 0 || (lefts[merge] === left && rights[merge] === right)) return merge;
    }
  }
}

/// Finds ordinary tokens by their bytes; the lowest id of those with equal bytes.
class BytesTable {
  constructor(vocabulary, isOrdinary) {
    this.vocabulary = vocabulary;
    this.factor = randomFactor();
    [this.slots, this.shift] = hashSlots(vocabulary.limit);
    this.mask = this.slots.length - 1;
    for (let id = 0; id < vocabulary.limit; id++) {
      if (!vocabulary.isToken[id] || !isOrdinary(id)) continue;
      const slot = this.slotOf(vocabulary.bytesOf(id));
      if (this.slots[slot] < 0) this.slots[slot] = id;
    }
  }

  /// The slot of a token with these bytes, or that where it would be.
  slotOf(bytes) {
    let hash = this.factor;
    for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 16), this.factor);
    let slot = hash >>> this.shift;
    while (this.slots[slot] >= 0 && !equal(this.vocabulary.bytesOf(this.slots[slot]), bytes)) slot = (slot + 1) & this.mask;
    return slot;
  }

  /// The id of a token, or -1.
  find(bytes) {
    return this.slots[this.slotOf(bytes)];
  }
}

function equal(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/// Longest sequence that is merged by looking at all its pairs for each merge. Longer ones need a heap.
const SHORT = 64;

/// Merges the pair of lowest rank, the leftmost if several have it, while any pair has a merge.
function mergeAll(ids, pairs) {
  return ids.length <= SHORT ? mergeShort(ids, pairs) : mergeLong(ids, pairs);
}

function mergeShort(ids, pairs) {
  const { ranks, result } = pairs.vocabulary;
  const merged = Array.from(ids);
  const merges = merged.map((id, at) => (at + 1 < merged.length ? pairs.find(id, merged[at + 1]) : -1));
  for (;;) {
    let best = -1;
    let lowest = Infinity;
    for (let at = 0; at + 1 < merged.length; at++) {
      if (merges[at] >= 0 && ranks[merges[at]] < lowest) {
        lowest = ranks[merges[at]];
        best = at;
      }
    }
    if (best < 0) return merged;
    merged.splice(best, 2, result[merges[best]]);
    merges.splice(best, 1);
    merges[best] = best + 1 < merged.length ? pairs.find(merged[best], merged[best + 1]) : -1;
    if (best > 0) merges[best - 1] = pairs.find(merged[best - 1], merged[best]);
  }
}

/// Places in a text that a key of the heap can hold.
const PLACES = 2 ** 28;

/// Does the same in O(n log n). The heap has a key for each pair that has had a merge: its rank, then its place. A key
/// whose pair has changed is skipped when it is taken.
function mergeLong(ids, pairs) {
  const { ranks, result } = pairs.vocabulary;
  const merged = Int32Array.from(ids);
  const next = Int32Array.from(merged, (_, at) => at + 1);
  const before = Int32Array.from(merged, (_, at) => at - 1);
  const merges = new Int32Array(merged.length).fill(-1);
  const heap = new KeyHeap();
  const look = at => {
    const right = next[at];
    merges[at] = right < merged.length ? pairs.find(merged[at], merged[right]) : -1;
    if (merges[at] >= 0) heap.push(ranks[merges[at]] * PLACES + at);
  };
  for (let at = 0; at < merged.length; at++) look(at);
  for (let key = heap.pop(); key !== undefined; key = heap.pop()) {
    const at = key % PLACES;
    const merge = merges[at];
    if (merge < 0 || ranks[merge] !== Math.floor(key / PLACES)) continue;
    const right = next[at];
    merged[at] = result[merge];
    merges[right] = -1;
    next[at] = next[right];
    if (next[at] < merged.length) before[next[at]] = at;
    look(at);
    if (before[at] >= 0) look(before[at]);
  }
  const left = [];
  for (let at = 0; at < merged.length; at = next[at]) left.push(merged[at]);
  return left;
}

/// A binary heap of numbers, the lowest first.
class KeyHeap {
  constructor() {
    this.keys = [];
  }

  push(key) {
    const { keys } = this;
    let at = keys.length;
    keys.push(key);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (keys[parent] <= key) break;
      keys[at] = keys[parent];
      at = parent;
    }
    keys[at] = key;
  }

  pop() {
    const { keys } = this;
    const lowest = keys[0];
    const last = keys.pop();
    if (keys.length === 0) return lowest;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= keys.length) break;
      if (child + 1 < keys.length && keys[child + 1] < keys[child]) child++;
      if (keys[child] >= last) break;
      keys[at] = keys[child];
      at = child;
    }
    keys[at] = last;
    return lowest;
  }
}

/// The character classes that expressions share. A class is a list of its ranges: for each, the distance of its start
/// from the end of the one before, and of its end from its start.
class CharacterClasses {
  constructor(classes) {
    this.sources = classes.map(distances => {
      let at = 0;
      let source = "";
      for (let number = 0; number < distances.length; number += 2) {
        const start = at + distances[number];
        at = start + distances[number + 1];
        source += `\\u{${start.toString(16)}}-\\u{${at.toString(16)}}`;
      }
      return `[${source}]`;
    });
  }

  /// The regular expression of texts and numbers of classes.
  expression(parts) {
    return new RegExp(parts.map(part => (typeof part === "number" ? this.sources[part] : part)).join(""), "gu");
  }

  /// Returns a function that says whether a character, given as a string, is in a class.
  test(number) {
    const expression = new RegExp(`^${this.sources[number]}$`, "u");
    return character => expression.test(character);
  }
}

/// The character that ends at a place of a text; empty at its start.
function characterBefore(text, end) {
  const isPair = end > 1 && /[\udc00-\udfff]/.test(text[end - 1]);
  return text.slice(isPair ? end - 2 : Math.max(0, end - 1), end);
}

/// The character that starts at a place of a text; empty at its end.
function characterAt(text, start) {
  return start < text.length ? String.fromCodePoint(text.codePointAt(start)) : "";
}

/// Calls `take(start, end)` for each match, in order. An empty match directly after another match is skipped.
function eachMatch(expression, text, take) {
  let lastEnd = -1;
  for (let at = 0; at <= text.length; ) {
    expression.lastIndex = at;
    const found = expression.exec(text);
    if (found === null) return;
    const start = found.index;
    const end = start + found[0].length;
    at = start < end ? end : end + Math.max(1, characterAt(text, end).length);
    if (start === end && lastEnd === end) continue;
    lastEnd = end;
    take(start, end);
  }
}

/// Finds added tokens in a text. If several overlap, the leftmost wins, then the longest.
class AddedTokenFinder {
  constructor(tokens, spelled, isWhite, isWord) {
    [this.isWhite, this.isWord] = [isWhite, isWord];
    /// A trie of the tokens' texts by UTF-16 units: maps with the token that ends there, if any.
    this.trie = { next: new Map(), token: null };
    for (const token of tokens) {
      let node = this.trie;
      const text = spelled(token.text);
      for (let at = 0; at < text.length; at++) {
        if (!node.next.has(text[at])) node.next.set(text[at], { next: new Map(), token: null });
        node = node.next.get(text[at]);
      }
      node.token ??= token;
    }
  }

  /// The longest token that starts at a place, and its end; null if there is none.
  longestAt(text, start) {
    let node = this.trie;
    let longest = null;
    for (let at = start; ; at++) {
      if (node.token) longest = { token: node.token, start, end: at };
      node = at < text.length ? node.next.get(text[at]) : undefined;
      if (node === undefined) return longest;
    }
  }

  /// Calls `takeText(start, end)` and `takeToken(token)` for the parts of a text, in order.
  ///
  /// A match that does not count still hides those that overlap it. A token with `rstrip` takes the white space after it,
  /// and so may cover part of the next match, which is still a token, unless it has `lstrip` and nothing is left of it.
  each(text, findSpecial, takeText, takeToken) {
    let done = 0;
    if (this.trie.next.size > 0) {
      let white = 0;
      for (let at = 0; at < text.length; ) {
        const found = this.trie.next.has(text[at]) ? this.longestAt(text, at) : null;
        at = found ? found.end : at + 1;
        if (!found || !this.counts(found, text, findSpecial)) continue;
        const { token, start, end } = found;
        let right = end;
        if (token.rstrip) {
          if (white < end) white = this.whiteEnd(text, end);
          right = white;
        }
        if (token.lstrip && start < done && right <= done) continue;
        const left = token.lstrip && done <= start ? this.whiteStart(text, done, start) : start;
        if (done < left) takeText(done, left);
        takeToken(token);
        done = right;
      }
    }
    if (done < text.length) takeText(done, text.length);
  }

  /// Whether a match is a token: not a special one unless these are to be found, nor one within a word if it has to be a
  /// single word.
  counts({ token, start, end }, text, findSpecial) {
    if (token.special && !findSpecial) return false;
    return !token.single_word || (!this.isWord(characterBefore(text, start)) && !this.isWord(characterAt(text, end)));
  }

  whiteEnd(text, start) {
    let end = start;
    while (end < text.length && this.isWhite(text[end])) end++;
    return end;
  }

  whiteStart(text, first, end) {
    let start = end;
    while (start > first && this.isWhite(text[start - 1])) start--;
    return start;
  }
}

/// Returns the function of a normalizer, which maps a text to a text.
function normalizer(step, classes, isWhite) {
  switch (step.kind) {
    case "form": {
      // Characters of later versions of Unicode stay, and separate the text around them.
      const known = classes.expression([step.known, "+"]);
      return text => text.replace(known, run => run.normalize(step.form));
    }
    case "lowercase":
      return text => Array.from(text, character => step.lower[character] ?? character).join("");
    case "remove": {
      const removed = classes.expression([step.class]);
      return text => text.replace(removed, "");
    }
    case "strip":
      return text => {
        let [start, end] = [0, text.length];
        while (step.left && start < end && isWhite(text[start])) start++;
        while (step.right && end > start && isWhite(text[end - 1])) end--;
        return text.slice(start, end);
      };
    case "prepend":
      return text => (text === "" ? "" : step.text + text);
    default: {
      if (step.text !== undefined) return text => text.split(step.text).join(step.content);
      const expression = classes.expression(step.regex);
      return text => {
        let [replaced, done] = ["", 0];
        eachMatch(expression, text, (start, end) => {
          replaced += text.slice(done, start) + step.content;
          done = end;
        });
        return replaced + text.slice(done);
      };
    }
  }
}

/// GPT-2's byte alphabet: the character of each byte.
const ALPHABET = (() => {
  let others = 0x100;
  const isKept = byte => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isKept(byte) ? byte : others++));
})();
const BYTE_OF = new Map(ALPHABET.map((character, byte) => [character, byte]));
const UTF8 = new TextEncoder();

/// Whether a split behavior splits between two sections. `left` and `right` say whether each counts as a match.
function splitsBetween(behavior, left, right) {
  switch (behavior) {
    case "merged-with-previous": return left || !right;
    case "merged-with-next": return !left || right;
    case "contiguous": return left !== right;
    default: return true;
  }
}

/// Appends the pre-tokens of a text by one step to `pretokens`.
function splitByStep({ expression, behavior, invert }, text, pretokens) {
  let [done, before, split] = [0, null, 0];
  const section = (end, isMatch) => {
    const matched = isMatch !== invert;
    if (matched && end > done && behavior === "removed") {
      const left = JSON.stringify(text.slice(done, end).slice(0, 40));
      throw new Error(`the split does not cover ${left}, which Hugging Face's tokenizers would drop`);
    }
    if (before !== null && splitsBetween(behavior, before, matched) && done > split) {
      pretokens.push(text.slice(split, done));
      split = done;
    }
    done = end;
    before = matched;
  };
  let at = 0;
  eachMatch(expression, text, (start, end) => {
    if (start > at) section(start, false);
    section(end, true);
    at = end;
  });
  if (at < text.length) section(text.length, false);
  if (split < text.length) pretokens.push(text.slice(split));
}

/// Normalized texts may have this many times the length of the text, and `ROOM` more.
const GROWTH = 64;
const ROOM = 2 ** 20;
/// Number of pre-tokens whose tokens are kept.
const MAX_CACHED = 200_000;

/// A tokenizer that encodes text.
class Tokenizer {
  constructor(facts, table, shared, classes) {
    this.facts = facts;
    this.vocabulary = new Vocabulary(table, shared.scripts.length, facts.has_counts);
    this.added = new Map(facts.added.map(token => [token.id, token]));
    this.encodes = facts.rules !== undefined;
    if (this.encodes) this.prepare(facts.rules, shared, classes);
  }

  prepare(rules, shared, classes) {
    const { vocabulary } = this;
    const [isWhite, isWord] = [classes.test(shared.white), classes.test(shared.word)];
    this.steps = rules.steps.map(step => ({ ...step, expression: classes.expression(step.regex) }));
    this.normalizers = rules.normalizers.map(step => normalizer(step, classes, isWhite));
    const finder = (isLate, spelled) => {
      const tokens = this.facts.added.filter(token => token.normalized === isLate);
      return new AddedTokenFinder(tokens, spelled, isWhite, isWord);
    };
    this.early = finder(false, text => text);
    this.late = finder(true, text => this.normalize(text));
    this.pairs = new PairTable(vocabulary);
    const isOrdinary = id => this.added.get(id)?.ordinary !== false;
    this.whole = rules.ignore_merges ? new BytesTable(vocabulary, isOrdinary) : null;
    this.byteIds = new Int32Array(256).fill(-1);
    for (let id = vocabulary.limit - 1; id >= 0; id--) {
      if (vocabulary.lengths[id] === 1 && isOrdinary(id)) this.byteIds[vocabulary.bytesOf(id)[0]] = id;
    }
    this.cache = new Map();
  }

  normalize(text) {
    let normal = text;
    for (const step of this.normalizers) {
      normal = step(normal);
      if (normal.length > GROWTH * text.length + ROOM) throw new Error("normalizing makes the text far longer");
    }
    return normal;
  }

  /// Returns the ids of a text, and how many of its bytes have no token. `findSpecial` says whether special tokens are
  /// found in it.
  ///
  /// Throws an error with a message for people if the tokenizer refuses the text.
  encode(text, findSpecial) {
    const encoded = { ids: [], missing: 0 };
    const whole = text.replace(/[\ud800-\udfff]/gu, "\ufffd");
    const push = token => encoded.ids.push(token.id);
    this.early.each(whole, findSpecial, (start, end) => {
      const normal = this.normalize(whole.slice(start, end));
      this.late.each(normal, findSpecial, (from, to) => this.encodePart(normal.slice(from, to), encoded), push);
    }, push);
    return encoded;
  }

  /// Encodes text without added tokens.
  encodePart(part, encoded) {
    const spaced = this.facts.rules.prefix_space && !part.startsWith(" ") ? ` ${part}` : part;
    for (const pretoken of this.split(spaced)) {
      const { ids, missing } = this.encodePretoken(pretoken);
      for (const id of ids) encoded.ids.push(id);
      encoded.missing += missing;
    }
  }

  /// The pre-tokens of a text. If a step splits its spelling in the byte alphabet, they are spelled.
  split(text) {
    let pretokens = text === "" ? [] : [text];
    let isSpelled = false;
    for (const step of this.steps) {
      if (step.spelled && !isSpelled) pretokens = pretokens.map(spell);
      isSpelled = step.spelled;
      const split = [];
      for (const pretoken of pretokens) splitByStep(step, pretoken, split);
      pretokens = split;
    }
    return pretokens;
  }

  /// The tokens of a pre-token, and how many of its bytes have none.
  encodePretoken(pretoken) {
    const known = this.cache.get(pretoken);
    if (known !== undefined) return known;
    const isSpelled = this.steps.length > 0 && this.steps[this.steps.length - 1].spelled;
    const bytes = isSpelled ? Uint8Array.from(pretoken, character => BYTE_OF.get(character)) : UTF8.encode(pretoken);
    const encoded = this.encodeBytes(bytes);
    if (this.cache.size >= MAX_CACHED) this.cache.clear();
    this.cache.set(pretoken, encoded);
    return encoded;
  }

  encodeBytes(bytes) {
    const whole = this.whole ? this.whole.find(bytes) : -1;
    if (whole >= 0) return { ids: [whole], missing: 0 };
    const { unknown } = this.facts.rules;
    const ids = [];
    let missing = 0;
    let isInRun = false;
    for (const byte of bytes) {
      const id = this.byteIds[byte];
      if (id >= 0) ids.push(id);
      else if (unknown && unknown.id !== null && !(isInRun && unknown.fuse)) ids.push(unknown.id);
      isInRun = id < 0;
      missing += isInRun ? 1 : 0;
    }
    return { ids: mergeAll(ids, this.pairs), missing };
  }
}

/// The spelling of a text in GPT-2's byte alphabet.
function spell(text) {
  return Array.from(UTF8.encode(text), byte => ALPHABET[byte]).join("");
}
