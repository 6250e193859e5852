// @ts-check
/**
 * The vacant protocol for browsers and Node: canonical JSON, times, hashes, signatures,
 * envelopes, cards, events and signed reads (PROTOCOL.md §1 to §10, §16, §19).
 *
 * Ids, hashes and signatures are lower-case hex. Times are canonical texts, which sort as
 * texts. Signed bytes are rebuilt from parsed fields and never taken from the wire.
 * @module
 */

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** @typedef {null | boolean | string | JSONNumber | JSONArray | JSONObject} Value */
/** @typedef {Value[]} JSONArray */
/** @typedef {Map<string, Value>} JSONObject */
/** @typedef {{bytes: number, depth: number, keys: number}} Limits */
/** @typedef {{id: string, key: CryptoKey}} Signer */
/** @typedef {{adoption: number, confidence: number, factual: number, honesty: number, logical: number, relevance: number}} SelfEval */
/** @typedef {{role: string, parts: string[], contextId: string | null, messageId: string | null, selfEval: SelfEval | null}} Message parts are texts */
/** @typedef {{from: string, to: string, seq: number, ts: string, prev: string, payload: Message, idem: string, signature: string}} Envelope
 * prev is the hash of the previous envelope of the chain, or ZERO_HASH; the signature is empty if unsigned */
/** @typedef {{vacantId: string, capabilityText: string, allowedSubstrates: string[], policy: JSONObject | null, haloVersion: number, endpoint: string, signature: string}} Card
 * null is the empty policy; the endpoint is empty if the card has none */
/** @typedef {{type: string, actor: string, payload: string, key: string, time: number, actorSeq: number, signature: string}} RegistryEvent
 * the payload is the JSON text whose hash is signed, the key the idempotency key, the time in Unix milliseconds */

/** A refusal. The code is not_json, malformed, too_large, refused or untrusted. */
export class VacantError extends Error {
  /** @param {"not_json" | "malformed" | "too_large" | "refused" | "untrusted"} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.name = "VacantError";
    this.code = code;
  }
}

/** @type {(message: string) => VacantError} */
const malformed = (message) => new VacantError("malformed", message);

// ---- Bytes and text ------------------------------------------------------------------

const encoder = new TextEncoder();
// ignoreBOM keeps a byte order mark in the text, so that the parser refuses it.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param {string} text @returns {Bytes} its UTF-8; lone surrogates are refused */
export function utf8(text) {
  if (!text.isWellFormed()) throw malformed("expected whole characters, got a lone surrogate");
  return /** @type {Bytes} */ (encoder.encode(text));
}

/** @param {Uint8Array} bytes @returns {string} */
function textFrom(bytes) {
  try {
    return decoder.decode(bytes);
  } catch {
    throw malformed("expected UTF-8, got other bytes");
  }
}

/** @param {Uint8Array} bytes @returns {string} */
export const toHex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/**
 * Parses hex of either case. As the reference does, it skips ASCII white space between
 * pairs and at both ends.
 * @param {string} text @returns {Bytes}
 */
export function parseHex(text) {
  if (typeof text !== "string") throw malformed(`expected a text of hexadecimal digits, got ${typeof text}`);
  let [out, n] = [new Uint8Array(text.length >> 1), 0];
  for (let i = 0; i < text.length; i += 2) {
    while (i < text.length && /[ \t-\r]/.test(text[i])) i++;
    if (i === text.length) break;
    const pair = text.slice(i, i + 2);
    if (!/^[0-9a-fA-F]{2}$/.test(pair)) throw malformed(`expected hexadecimal digits at position ${i}`);
    out[n++] = parseInt(pair, 16);
  }
  return out.slice(0, n);
}

/** @param {string} text @returns {string} */
function hex32(text) {
  if (/^[0-9a-f]{64}$/.test(text)) return text;
  const bytes = parseHex(text);
  if (bytes.length !== 32) throw malformed(`expected 32 bytes of hex, got ${bytes.length}`);
  return toHex(bytes);
}

/** @param {Uint8Array[]} parts @returns {Bytes} */
export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** @param {number} n @returns {Bytes} 8 bytes, big-endian */
const uint64 = (n) => parseHex(n.toString(16).padStart(16, "0"));

// The white space that the reference's language knows, which differs from \s.
const spaces = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const blank = new RegExp(`^[${spaces}]*$`);
const outer = new RegExp(`^[${spaces}]+|[${spaces}]+$`, "g");

// ---- Strict JSON ---------------------------------------------------------------------

/** Bounds of a request. @type {Readonly<Limits>} */
export const LIMITS = Object.freeze({ bytes: 256 << 10, depth: 32, keys: 1024 });
/** Bounds of an answer. @type {Readonly<Limits>} */
export const ANSWER_LIMITS = Object.freeze({ bytes: 2 << 20, depth: 32, keys: 1024 });

const maxDigits = 4300;
/** A number as it was written: 1 and 1.0 have different hashes. */
export class JSONNumber {
  /** @param {string} literal a number of JSON within float64 if it is a float */
  constructor(literal) {
    this.literal = literal;
    /** Reports whether the literal has a point or an exponent. */
    this.float = /[.eE]/.test(literal);
  }

  /** The nearest float64. */
  get value() {
    const n = Number(this.literal);
    return n === 0 && !this.float ? 0 : n; // -0 is the integer 0
  }

  /** The literal in canonical form. */
  get canonical() {
    if (this.float) return floatText(this.value);
    return this.literal === "-0" ? "0" : this.literal;
  }
}

/** @param {number} n a finite number @returns {JSONNumber} the float, with a point or an exponent */
export function float(n) {
  if (!Number.isFinite(n)) throw malformed(`expected a finite number, got ${n}`);
  return new JSONNumber(floatText(n));
}

/** @param {number} n @returns {string} */
function floatText(n) {
  const abs = Math.abs(n);
  if (abs !== 0 && (abs < 1e-4 || abs >= 1e16)) {
    const [digits, exponent] = n.toExponential().split("e");
    return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
  }
  const text = Object.is(n, -0) ? "-0" : String(n);
  return Number.isInteger(n) ? text + ".0" : text;
}

/**
 * Parses one JSON document in one reading: no duplicate keys, no lone surrogates, no
 * number outside float64, and within limits.
 * @param {string | Uint8Array} source @param {Readonly<Limits>} [limits] @returns {Value}
 */
export function parseJSON(source, limits = LIMITS) {
  const size = typeof source === "string" ? utf8(source).length : source.length;
  if (size > limits.bytes) throw new VacantError("too_large", `expected at most ${limits.bytes} bytes, got ${size}`);
  const text = typeof source === "string" ? source : textFrom(source);
  if (text[0] === "\ufeff") throw malformed("the text begins with a byte order mark");
  if (text.length > 1 && (text[0] === "\0" || text[1] === "\0")) throw malformed("the text is UTF-16 or UTF-32");
  return new Parser(text, limits).document();
}

class Parser {
  /** @param {string} text @param {Readonly<Limits>} limits */
  constructor(text, limits) {
    this.text = text;
    this.limits = limits;
    this.pos = 0;
    this.depth = 0;
  }

  document() {
    const value = this.value();
    if (this.next() !== "") throw this.syntax("the end");
    return value;
  }

  /** Skips white space and returns the next character, or an empty string at the end. */
  next() {
    for (; ; this.pos++) {
      const c = this.text[this.pos];
      if (c !== " " && c !== "\t" && c !== "\n" && c !== "\r") return c ?? "";
    }
  }

  /** @param {string} want @param {number} [at] @returns {VacantError} */
  syntax(want, at = this.pos) {
    const got = at < this.text.length ? JSON.stringify(String.fromCodePoint(this.text.codePointAt(at) ?? 0)) : "the end";
    return new VacantError("not_json", `not JSON: expected ${want} at character ${at}, got ${got}`);
  }

  /** @returns {Value} */
  value() {
    const c = this.next();
    switch (c) {
      case "{": return this.object();
      case "[": return this.array();
      case '"': return this.string();
      case "t": return this.word("true", true);
      case "f": return this.word("false", false);
      case "n": return this.word("null", null);
    }
    for (const word of ["NaN", "Infinity", "-Infinity"]) {
      if (this.text.startsWith(word, this.pos)) throw malformed(`expected a value of JSON, got ${word}`);
    }
    if (c === "-" || (c >= "0" && c <= "9")) return this.number();
    throw this.syntax("a value");
  }

  /** @template T @param {string} word @param {T} value @returns {T} */
  word(word, value) {
    if (!this.text.startsWith(word, this.pos)) throw this.syntax(word);
    this.pos += word.length;
    return value;
  }

  enter() {
    if (this.depth++ === this.limits.depth) throw malformed(`expected nesting of at most ${this.limits.depth}, got more`);
    this.pos++;
  }

  /** Reads the comma before another element; returns false at the end. @param {string} end */
  another(end) {
    const c = this.next();
    if (c !== "," && c !== end) throw this.syntax(`a comma or ${end}`);
    this.pos++;
    return c === ",";
  }

  object() {
    /** @type {JSONObject} */
    const out = new Map();
    let keys = 0;
    /** @type {string | undefined} */
    let twice;
    this.enter();
    let more = this.next() !== "}";
    if (!more) this.pos++;
    while (more) {
      if (this.next() !== '"') throw this.syntax("a key in quotes");
      const key = this.string();
      if (this.next() !== ":") throw this.syntax("a colon");
      this.pos++;
      if (keys++ === this.limits.keys) throw malformed(`expected at most ${this.limits.keys} keys, got more`);
      if (out.has(key)) twice = key;
      out.set(key, this.value());
      more = this.another("}");
    }
    if (twice !== undefined) throw malformed(`${JSON.stringify(twice)}: expected the key once, got it twice`);
    this.depth--;
    return out;
  }

  array() {
    /** @type {JSONArray} */
    const out = [];
    this.enter();
    let more = this.next() !== "]";
    if (!more) this.pos++;
    while (more) {
      out.push(this.value());
      more = this.another("]");
    }
    this.depth--;
    return out;
  }

  /** @param {RegExp} token a sticky expression @returns {string} what it matches here */
  token(token) {
    token.lastIndex = this.pos;
    const found = token.exec(this.text);
    if (!found) throw this.syntax("a whole string or number");
    this.pos = token.lastIndex;
    return found[0];
  }

  string() {
    // Unrolled, so that a string without its end takes linear time.
    /** @type {string} */
    const text = JSON.parse(this.token(/"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"/y));
    if (!text.isWellFormed()) throw malformed("expected whole characters, got a lone surrogate");
    return text;
  }

  number() {
    const number = new JSONNumber(this.token(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y));
    if (number.literal.replace("-", "").length > maxDigits) throw malformed(`expected a number of at most ${maxDigits} digits, got more`);
    if (number.float && !Number.isFinite(number.value)) throw malformed("expected a number that a float64 holds");
    return number;
  }
}

/** Converts a parsed value to ordinary JavaScript: objects without a prototype, numbers. @param {Value} value @returns {any} */
export function plain(value) {
  if (value instanceof JSONNumber) return value.value;
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  const out = Object.create(null);
  for (const [key, v] of value) out[key] = plain(v);
  return out;
}

// ---- Canonical JSON ------------------------------------------------------------------

/**
 * The canonical form CJ. Beside parsed values it takes ordinary objects, integers (as
 * integers) and other finite numbers (as floats). Use float for a float such as 1.0.
 * @param {any} value @returns {string}
 */
export const canonical = (value) => form(value, quote);

/** The form CJ-A: CJ with everything outside ASCII escaped. @param {any} value @returns {string} */
export const canonicalASCII = (value) => form(value, (text) => quote(text).replace(/[\x7f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")));

/** @param {string} text @returns {string} JSON's escapes are those of CJ for whole characters */
function quote(text) {
  if (!text.isWellFormed()) throw malformed("expected whole characters, got a lone surrogate");
  return JSON.stringify(text);
}

/** @param {any} value @param {(text: string) => string} string @returns {string} */
function form(value, string) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return string(value);
  if (value instanceof JSONNumber) return value.canonical;
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return Number.isSafeInteger(value) ? String(value) : float(value).literal;
  if (Array.isArray(value)) return "[" + value.map((v) => form(v, string)).join(",") + "]";
  if (typeof value !== "object") throw malformed(`expected a value of JSON, got ${typeof value}`);
  const members = value instanceof Map ? [...value] : Object.entries(value);
  members.sort((a, b) => compareKeys(a[0], b[0]));
  return "{" + members.map(([k, v]) => string(k) + ":" + form(v, string)).join(",") + "}";
}

/** Compares by code point, where UTF-16 sorts surrogates too low. @param {string} a @param {string} b @returns {number} */
export function compareKeys(a, b) {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** @param {number} unit @returns {number} */
const rank = (unit) => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800);

// ---- Times ---------------------------------------------------------------------------

const second = 1_000_000n;

/** @param {number} [ms] Unix milliseconds @returns {string} the canonical time */
export const now = (ms = Date.now()) => formatTime(BigInt(Math.trunc(ms)) * 1000n);

/** @param {bigint} micros Unix microseconds @returns {string} */
export function formatTime(micros) {
  const fraction = ((micros % second) + second) % second;
  const text = new Date(Number((micros - fraction) / 1000n)).toISOString().slice(0, 19);
  if (text.length !== 19 || !/^\d{4}-/.test(text)) throw malformed("expected a time of the years 1 to 9999");
  return text + (fraction ? "." + String(fraction).padStart(6, "0") : "") + "+00:00";
}

/** @param {string} text @returns {string} the canonical form of a time */
export const canonicalTime = (text) => formatTime(microsOf(text));

/** Parses a time as the reference's language does (PROTOCOL §3). @param {string} text @returns {bigint} Unix microseconds */
export function microsOf(text) {
  const [date, clock] = splitTime(text);
  const days = parseDate(date);
  const since = clock === "" ? 0 : parseClock(clock);
  const micros = days === null || since === null ? null : BigInt(days) * 1000n + BigInt(since);
  if (micros === null || micros < -62135596800n * second || micros >= 253402300800n * second) {
    throw malformed(`expected an ISO 8601 time of the years 1 to 9999, got ${JSON.stringify(text.slice(0, 40))}`);
  }
  return micros;
}

/** @param {string} s @returns {[string, string]} */
function splitTime(s) {
  if (s.length < 7) return [s, ""];
  let n = 8; // YYYYMMDD, YYYY-Www
  if (s[4] === "-" && s[5] !== "W") {
    n = 10; // YYYY-MM-DD
  } else if (s[4] === "-" && s[8] === "-" && !/\d/.test(s[10] ?? "")) {
    n = 10; // YYYY-Www-D; if a digit is at 10, the hyphen at 8 is the separator
  } else if (s[4] === "W") {
    // A time has an even number of digits, and the separator may be a digit too: an even
    // number from the start means YYYYWww.
    let end = 7;
    while (/\d/.test(s[end] ?? "")) end++;
    if (end === 7 || (end > 8 && end % 2 === 0)) n = 7;
  }
  if (s.length <= n) return [s, ""];
  const separator = (s.codePointAt(n) ?? 0) > 0xffff ? 2 : 1;
  return s.length === n + separator ? [s, ""] : [s.slice(0, n), s.slice(n + separator)];
}

/** @param {number} year @param {number} month @param {number} day @returns {Date} */
function utc(year, month, day) {
  const t = new Date(0);
  t.setUTCFullYear(year, month, day); // unlike Date.UTC it takes the years 1 to 99
  return t;
}

/** @param {string} s @returns {number | null} Unix milliseconds */
function parseDate(s) {
  const day = /^(\d{4})(?:(-?)(\d\d)\2(\d\d))$/.exec(s);
  if (day && Number(day[1]) > 0) {
    const t = utc(Number(day[1]), Number(day[3]) - 1, Number(day[4]));
    return t.getUTCMonth() === Number(day[3]) - 1 && t.getUTCDate() === Number(day[4]) ? t.getTime() : null;
  }
  const week = /^(\d{4})(-?)W(\d\d)(?:\2(\d))?$/.exec(s);
  if (!week || Number(week[1]) < 1) return null;
  const [year, number, weekday] = [Number(week[1]), Number(week[3]), Number(week[4] ?? 1)];
  const toMonday = (utc(year, 0, 4).getUTCDay() + 6) % 7; // 4 January is always in week 1
  const thursday = utc(year, 0, 4 + 7 * (number - 1) + 3 - toMonday);
  if (weekday < 1 || weekday > 7 || number < 1 || thursday.getUTCFullYear() !== year) return null;
  const t = utc(year, 0, 4 + 7 * (number - 1) + weekday - 1 - toMonday);
  return t.getUTCFullYear() >= 1 && t.getUTCFullYear() <= 9999 ? t.getTime() : null;
}

/** @param {string} s @returns {number | null} microseconds */
function parseClock(s) {
  const at = s.search(/[+\-Z]/);
  const zone = at < 0 ? "" : s.slice(at);
  // The reference accepts a point without digits only before an offset.
  const since = parseHours(at < 0 ? s : s.slice(0, at), zone !== "");
  if (since === null || zone === "" || zone === "Z") return since;
  const offset = parseHours(zone.slice(1), false);
  if (offset === null || zone[0] === "Z") return null;
  return zone[0] === "+" ? since - offset : since + offset;
}

/** @param {string} s @param {boolean} openPoint @returns {number | null} microseconds */
function parseHours(s, openPoint) {
  const m = /^(\d\d)(?:(:?)(\d\d)(?:\2(\d\d)([.,]\d*)?)?)?$/.exec(s);
  if (!m) return null;
  const [hour, minute, sec] = [Number(m[1]), Number(m[3] ?? 0), Number(m[4] ?? 0)];
  if (hour > 23 || minute > 59 || sec > 59 || (m[5]?.length === 1 && !openPoint)) return null;
  const micro = Number((m[5] ?? "").slice(1, 7).padEnd(6, "0"));
  return ((hour * 60 + minute) * 60 + sec) * 1e6 + micro;
}

// ---- BLAKE2b-256 ---------------------------------------------------------------------

// Words of 64 bits are pairs of 32 bits, low half first.
const iv = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
const sigma = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
/** @type {ReadonlyArray<readonly [number, number, number, number]>} */
const columns = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const v = new Uint32Array(32);
const m = new Uint32Array(34); // the last word is zero

/** v[a] += v[b] + m[word]. @param {number} a @param {number} b @param {number} [word] */
function add(a, b, word = 32) {
  const low = v[a] + v[b] + m[word];
  v[a] = low;
  v[a + 1] = v[a + 1] + v[b + 1] + m[word + 1] + Math.floor(low / 0x100000000);
}

/** v[a] = (v[a] ^ v[b]) rotated right by n < 32 bits. @param {number} a @param {number} b @param {number} n */
function turn(a, b, n) {
  const low = v[a] ^ v[b];
  const high = v[a + 1] ^ v[b + 1];
  v[a] = (low >>> n) | (high << (32 - n));
  v[a + 1] = (high >>> n) | (low << (32 - n));
}

/** v[a] = (v[a] ^ v[b]) with its halves exchanged. @param {number} a @param {number} b */
function swap(a, b) {
  const low = v[a] ^ v[b];
  v[a] = v[a + 1] ^ v[b + 1];
  v[a + 1] = low;
}

/** Hashes with BLAKE2b of digest length 32, without a key. @param {Uint8Array | string} data a string is hashed as UTF-8 @returns {Bytes} */
export function blake2b(data) {
  const bytes = typeof data === "string" ? utf8(data) : data;
  const h = iv.slice();
  h[0] ^= 0x01010020;
  const block = new Uint8Array(128);
  const view = new DataView(block.buffer);
  for (let at = 0; ; at += 128) {
    const end = Math.min(at + 128, bytes.length);
    block.fill(0);
    block.set(bytes.subarray(at, end));
    for (let i = 0; i < 32; i++) m[i] = view.getUint32(4 * i, true);
    const last = at + 128 >= bytes.length;
    v.set(h);
    v.set(iv, 16);
    v[24] ^= end;
    v[25] ^= Math.floor(end / 0x100000000);
    if (last) v.set([~v[28], ~v[29]], 28);
    for (let round = 0; round < 12; round++) {
      const order = sigma[round % 10];
      for (let i = 0; i < 8; i++) {
        const column = columns[i];
        const [a, b, c, d] = [2 * column[0], 2 * column[1], 2 * column[2], 2 * column[3]];
        add(a, b, 2 * order[2 * i]);
        swap(d, a);
        add(c, d);
        turn(b, c, 24);
        add(a, b, 2 * order[2 * i + 1]);
        turn(d, a, 16);
        add(c, d);
        // A rotation by 63 bits to the right is one by 1 bit to the left.
        swap(b, c);
        const [low, high] = [v[b], v[b + 1]];
        v[b] = (low >>> 31) | (high << 1);
        v[b + 1] = (high >>> 31) | (low << 1);
      }
    }
    for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
    if (last) break;
  }
  const out = new Uint8Array(32);
  const result = new DataView(out.buffer);
  for (let i = 0; i < 8; i++) result.setUint32(4 * i, h[i], true);
  return out;
}

/** @param {Uint8Array | string} data @returns {string} its BLAKE2b-256 */
export const hash = (data) => toHex(blake2b(data));

// ---- Ids and signatures --------------------------------------------------------------

/** The hash of no envelope. */
export const ZERO_HASH = "0".repeat(64);

/** @param {string} text hex of either case @returns {string} the id */
export const parseID = (text) => hex32(text);

/** @param {string} text hex of either case @returns {string} the hash */
export const parseHash = (text) => hex32(text);

/** @param {string} id @returns {string} its first 12 digits, which do not identify a vacant */
export const shortID = (id) => id.slice(0, 12);

// The y coordinates of the eight points whose order divides 8, without the sign.
const smallOrders = new Set([
  ZERO_HASH, "01" + "0".repeat(62), "ec" + "f".repeat(60) + "7f",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]);

/** @param {Uint8Array} point @returns {boolean} */
function smallOrder(point) {
  const y = point.slice(0, 32);
  y[31] &= 0x7f;
  return smallOrders.has(toHex(y));
}

/** Throws unless id is a canonical key that is not of small order. @param {string} id */
export function checkID(id) {
  const key = parseHex(id);
  if (key.length !== 32) throw malformed(`expected an id of 32 bytes, got ${key.length}`);
  // y must be below p = 2^255 - 19: ed ff … ff 7f.
  if ((key[31] & 0x7f) === 0x7f && key[0] >= 0xed && key.subarray(1, 31).every((b) => b === 0xff)) {
    throw malformed(`id ${shortID(id)} is not a canonical Ed25519 key`);
  }
  if (smallOrder(key)) throw malformed(`id ${shortID(id)} is an Ed25519 key of small order`);
}

/** @param {string} id @returns {string} the id as a did:key */
export function didKey(id) {
  const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let n = BigInt("0xed01" + hex32(id));
  let out = "";
  for (; n > 0n; n /= 58n) out = alphabet[Number(n % 58n)] + out;
  return "did:key:z" + out;
}

const ed25519 = { name: "Ed25519" };
const pkcs8 = parseHex("302e020100300506032b657004220420");

/** Reports whether this runtime has Ed25519 in WebCrypto. It needs a secure context. @returns {Promise<boolean>} */
export async function hasEd25519() {
  try {
    await crypto.subtle.importKey("raw", parseHex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"), ed25519, false, ["verify"]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Makes a key. Unless it is exportable, no script can read it, and it can only sign.
 * @param {{exportable?: boolean}} [options] @returns {Promise<Signer>}
 */
export async function newSigner({ exportable = false } = {}) {
  const pair = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey(ed25519, exportable, ["sign", "verify"]));
  return { id: toHex(new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey))), key: pair.privateKey };
}

/** Imports the key of a seed of 32 bytes. @param {Uint8Array} seed @param {{exportable?: boolean}} [options] @returns {Promise<Signer>} */
export async function signerFromSeed(seed, { exportable = false } = {}) {
  if (seed.length !== 32) throw malformed(`expected a seed of 32 bytes, got ${seed.length}`);
  const der = concat(pkcs8, seed);
  // Only an exported key tells its public half.
  const readable = await crypto.subtle.importKey("pkcs8", der, ed25519, true, ["sign"]);
  const { x = "" } = await crypto.subtle.exportKey("jwk", readable);
  const id = toHex(fromBase64(x.replaceAll("-", "+").replaceAll("_", "/") + "="));
  return { id, key: exportable ? readable : await crypto.subtle.importKey("pkcs8", der, ed25519, false, ["sign"]) };
}

/** @param {Signer} signer whose key is exportable @returns {Promise<Bytes>} its 32-byte seed */
export async function seedOf(signer) {
  return new Uint8Array(await crypto.subtle.exportKey("pkcs8", signer.key)).slice(pkcs8.length);
}

/** @param {string} text standard base64 with padding @returns {Bytes} */
export function fromBase64(text) {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) throw malformed("expected base64");
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** @param {Uint8Array} bytes @returns {string} */
export const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));

/** @param {Signer} signer @param {Bytes} bytes @returns {Promise<string>} the signature */
export async function sign(signer, bytes) {
  return toHex(new Uint8Array(await crypto.subtle.sign(ed25519, signer.key, bytes)));
}

// 2^252 + 27742317777372353535851937790883648493, the order of the group.
const order = 2n ** 252n + 27742317777372353535851937790883648493n;

/**
 * Reports whether signature is id's of bytes, by libsodium's rules: 64 bytes, S below the
 * group's order, a canonical key, and neither the key nor R of small order.
 * @param {string} id @param {Bytes} bytes @param {string} signature @returns {Promise<boolean>}
 */
export async function verify(id, bytes, signature) {
  const raw = parseHex(signature);
  if (raw.length !== 64 || smallOrder(raw) || BigInt("0x" + toHex(raw.slice(32).reverse())) >= order) return false;
  try {
    checkID(id);
  } catch {
    return false;
  }
  let key;
  try {
    key = await crypto.subtle.importKey("raw", parseHex(id), ed25519, false, ["verify"]);
  } catch (err) {
    // The key is not a point. Other errors say that the runtime cannot verify.
    if (err instanceof DOMException && err.name === "DataError") return false;
    throw err;
  }
  return crypto.subtle.verify(ed25519, key, raw, bytes);
}

// ---- Envelopes -----------------------------------------------------------------------

const maxParts = 64;
const maxIDBytes = 512;
const blockKey = "urn:vacant:v1";
const roles = ["ROLE_USER", "ROLE_AGENT", "ROLE_TOOL"];
/** @type {ReadonlyArray<keyof SelfEval>} */
const dimensions = ["adoption", "confidence", "factual", "honesty", "logical", "relevance"];
/** @type {ReadonlyArray<keyof SelfEval>} */
const wireDimensions = ["factual", "logical", "relevance", "honesty", "adoption", "confidence"];

/** The text of a chain reset. */
export const RESET_TEXT = "RESET_CHAIN";

/**
 * Makes an unsigned envelope, and refuses what a recipient would refuse.
 * @param {{from: string, to: string, seq?: number, prev?: string, ts?: string, idem?: string, text?: string, parts?: string[], role?: string,
 * contextId?: string | null, messageId?: string | null, selfEval?: SelfEval | null}} fields
 * @returns {Envelope}
 */
export function makeEnvelope(fields) {
  const { from, to, seq = 1, prev = ZERO_HASH, ts = now(), idem = "", role = "ROLE_USER", contextId = null, messageId = null, selfEval = null } = fields;
  const parts = fields.parts ?? [fields.text ?? ""];
  /** @type {Envelope} */
  const e = {
    from: parseID(from), to: parseID(to), seq, ts: canonicalTime(ts), prev: parseHash(prev),
    payload: { role, parts: [...parts], contextId, messageId, selfEval }, idem, signature: "",
  };
  return parseMessage(messageJSON(e));
}

/** @param {Envelope} e @returns {string} the signed JSON */
function signedText(e) {
  const { role, parts, contextId, messageId, selfEval } = e.payload;
  return canonical({
    from: e.from, idem: e.idem, prev: e.prev, seq: e.seq, to: e.to, ts: e.ts,
    payload: {
      role, contextId, messageId,
      parts: parts.map((text) => ({ text, type: "text" })),
      selfEval: selfEval && Object.fromEntries(dimensions.map((d) => [d, float(selfEval[d])])),
    },
  });
}

/** @param {Envelope} e @returns {Bytes} the signed bytes */
export const envelopeBytes = (e) => utf8(signedText(e));

/** @param {Envelope} e @returns {string} the hash, which does not cover the signature */
export const envelopeHash = (e) => hash(signedText(e));

/** @param {Envelope} e @param {Signer} signer of e.from @returns {Promise<Envelope>} the signed envelope */
export async function signEnvelope(e, signer) {
  if (signer.id !== e.from) throw new VacantError("untrusted", `an envelope of ${shortID(e.from)} cannot be signed by ${shortID(signer.id)}`);
  return { ...e, signature: await sign(signer, envelopeBytes(e)) };
}

/**
 * Reports whether an id signed an envelope. Verify an answer by the id that was called,
 * not by the sender that the answer names.
 * @param {Envelope} e @param {string} [id] @returns {Promise<boolean>}
 */
export const verifyEnvelope = (e, id = e.from) => verify(id, envelopeBytes(e), e.signature);

/** @param {Envelope} e @returns {string} the message object of a request or an answer */
export function messageJSON(e) {
  const { role, parts, contextId, messageId, selfEval } = e.payload;
  const block = {
    from_vacant_id: e.from, to_vacant_id: e.to, sequence_no: e.seq, timestamp: e.ts,
    prev_envelope_hash: e.prev, idempotency_key: e.idem, caller_signature: e.signature,
  };
  const message = JSON.stringify({ role, parts: parts.map((text) => ({ type: "text", text })), contextId, messageId, metadata: { [blockKey]: block } });
  if (!selfEval) return message;
  const scores = wireDimensions.map((d) => `"${d}":${float(selfEval[d]).literal}`);
  return `${message.slice(0, -1)},"selfEval":{${scores.join(",")}}}`;
}

/**
 * The JSON-RPC request that carries a signed envelope.
 * @param {Envelope} e @param {string} [id] of JSON-RPC; without it the idempotency key, or the hash if that is empty @returns {string}
 */
export function requestBody(e, id = e.idem || envelopeHash(e)) {
  return `{"jsonrpc":"2.0","id":${quote(id)},"method":"message/send","params":{"message":${messageJSON(e)}}}`;
}

/** Parses the body of message/send. The signature is not verified. @param {string | Uint8Array} body @returns {Envelope} */
export function parseRequest(body) {
  const request = object(parseJSON(body), "body", "not_json");
  if (request.get("jsonrpc") !== "2.0") throw malformed("jsonrpc field must be '2.0'");
  if (request.get("method") !== "message/send") throw malformed("method must be 'message/send'");
  return envelopeOf(object(object(request.get("params"), "params").get("message"), "message"));
}

/** Parses result.message of an answer. The signature is not verified. @param {string | Uint8Array} body @returns {Envelope} */
export function parseResponse(body) {
  const response = object(parseJSON(body, ANSWER_LIMITS), "body", "not_json");
  if (!response.has("result") && response.has("detail")) throw new VacantError("refused", `the host refused: ${plain(response.get("detail") ?? null)}`);
  return envelopeOf(object(object(response.get("result"), "result").get("message"), "message"));
}

/** Parses a message object. The signature is not verified. @param {string | Uint8Array} text @returns {Envelope} */
export function parseMessage(text) {
  return envelopeOf(object(parseJSON(text, ANSWER_LIMITS), "message", "not_json"));
}

/** @param {Value | undefined} value @param {string} name @param {"malformed" | "not_json"} [code] @returns {JSONObject} */
function object(value, name, code = "malformed") {
  if (value === undefined) throw malformed(`missing field: '${name}'`);
  if (!(value instanceof Map)) throw new VacantError(code, `${name}: expected an object`);
  return value;
}

/** @param {Value | undefined} value @param {string} name @returns {string} */
function string(value, name) {
  if (value === undefined) throw malformed(`missing field: '${name}'`);
  if (typeof value !== "string") throw malformed(`${name}: expected a string`);
  return value;
}

/** @param {Value | undefined} value @param {string} name @returns {string | null} */
function optionalID(value, name) {
  if (value === undefined || value === null) return null;
  const text = string(value, name);
  if (utf8(text).length > maxIDBytes) throw malformed(`${name}: expected at most ${maxIDBytes} bytes`);
  return text;
}

/** @param {JSONObject} message @returns {Envelope} */
function envelopeOf(message) {
  const block = object(object(message.get("metadata"), "metadata").get(blockKey), blockKey);
  /** @param {string} key */
  const text = (key) => string(block.get(key), key);
  const seq = block.get("sequence_no");
  if (!(seq instanceof JSONNumber) || seq.float || !Number.isSafeInteger(seq.value) || seq.value < 1) {
    throw malformed("sequence_no: expected an integer from 1 to 2^53 - 1");
  }
  const idem = block.get("idempotency_key");
  const role = message.get("role");
  const kind = role === undefined ? "ROLE_USER" : string(role, "role");
  if (!roles.includes(kind)) throw malformed("role: expected ROLE_USER, ROLE_AGENT or ROLE_TOOL");
  return {
    from: parseID(text("from_vacant_id")),
    to: parseID(text("to_vacant_id")),
    seq: seq.value,
    ts: canonicalTime(text("timestamp")),
    prev: parseHash(text("prev_envelope_hash")),
    payload: {
      role: kind,
      parts: partsOf(message.get("parts")),
      contextId: optionalID(message.get("contextId"), "contextId"),
      messageId: optionalID(message.get("messageId"), "messageId"),
      selfEval: selfEvalOf(message.get("selfEval")),
    },
    idem: idem === undefined ? "" : (optionalID(string(idem, "idempotency_key"), "idempotency_key") ?? ""),
    signature: toHex(parseHex(text("caller_signature"))),
  };
}

/** @param {Value | undefined} parts @returns {string[]} */
function partsOf(parts = []) {
  if (!Array.isArray(parts)) throw malformed("parts: expected an array");
  if (parts.length > maxParts) throw malformed(`parts: expected at most ${maxParts} parts, got ${parts.length}`);
  return parts.map((part, i) => {
    const members = object(part, `parts[${i}]`);
    if (string(members.get("type") ?? (members.has("type") ? null : "text"), `parts[${i}].type`) !== "text") {
      throw malformed(`parts[${i}].type: expected "text"`);
    }
    return members.has("text") ? string(members.get("text"), `parts[${i}].text`) : "";
  });
}

/** @param {Value | undefined} value @returns {SelfEval | null} */
function selfEvalOf(value) {
  if (value === undefined || value === null) return null;
  const members = object(value, "selfEval");
  // A missing dimension is 0.5, also in the signed bytes.
  const out = { adoption: 0.5, confidence: 0.5, factual: 0.5, honesty: 0.5, logical: 0.5, relevance: 0.5 };
  for (const d of dimensions) {
    const score = members.get(d);
    if (score === undefined) continue;
    if (!(score instanceof JSONNumber) || !(score.value >= 0 && score.value <= 1)) throw malformed(`selfEval.${d}: expected a number from 0 to 1`);
    out[d] = score.value;
  }
  return out;
}

/** @param {Envelope} e @returns {string} its parts, joined by spaces */
export const textOf = (e) => e.payload.parts.join(" ");

/** @param {string} request the hash of a request @returns {string} the idempotency key of its answer */
export const replyKey = (request) => "re:" + request;

/** @param {Envelope} e @returns {boolean} */
export const isReset = (e) => textOf(e).replace(outer, "") === RESET_TEXT;

/**
 * Checks an answer against its request, and against the last answer of the same epoch.
 * @param {Envelope} answer @param {Envelope} request @param {{seq: number, hash: string}} [tip] of the response chain; the start of a chain by default
 * @returns {Promise<{signature: boolean, binding: boolean, position: boolean}>}
 */
export async function checkResponse(answer, request, tip = { seq: 0, hash: ZERO_HASH }) {
  return {
    signature: await verifyEnvelope(answer, request.to),
    binding: answer.from === request.to && answer.to === request.from && answer.idem === replyKey(envelopeHash(request)),
    position: answer.seq === tip.seq + 1 && answer.prev === tip.hash,
  };
}

// ---- Cards ---------------------------------------------------------------------------

const maxCard = 32 << 10;
const separator = new Uint8Array([0x1f]);

/** @param {Uint8Array[]} fields @returns {Bytes} the fields, joined by 0x1f */
const joined = (...fields) => concat(...fields.flatMap((f, i) => (i === 0 ? [f] : [separator, f])));

/** Parses a serialised card. The signature is not verified. @param {string | Uint8Array} blob @returns {Card} */
export function parseCard(blob) {
  const card = object(parseJSON(blob, { ...LIMITS, bytes: maxCard }), "card");
  const version = card.get("halo_version");
  // The version comes first, because the fields of a later version are unknown.
  if (version !== undefined && !(version instanceof JSONNumber && version.literal === "1")) throw malformed("halo_version: expected the integer 1");
  const spec = object(card.get("substrate_spec") ?? new Map(), "substrate_spec");
  const names = spec.has("allowed_substrates") ? spec.get("allowed_substrates") : [];
  if (!Array.isArray(names)) throw malformed("allowed_substrates: expected an array");
  const policy = spec.has("policy") ? object(spec.get("policy"), "policy") : null;
  const endpoint = card.get("endpoint") ?? null;
  return {
    vacantId: parseID(string(card.get("vacant_id"), "vacant_id")),
    capabilityText: string(card.get("capability_text"), "capability_text"),
    allowedSubstrates: names.map((name, i) => {
      const text = string(name, `allowed_substrates[${i}]`);
      if (blank.test(text)) throw malformed(`allowed_substrates[${i}]: expected a name, got a blank string`);
      return text;
    }),
    policy: policy && policy.size > 0 ? policy : null,
    haloVersion: 1,
    endpoint: endpoint === null ? "" : string(endpoint, "endpoint"),
    signature: card.has("signature") ? toHex(parseHex(string(card.get("signature"), "signature"))) : "",
  };
}

/** @param {Card} c */
const specOf = (c) => ({ allowed_substrates: c.allowedSubstrates, policy: c.policy ?? new Map() });

/** @param {Card} c @returns {Bytes} the signed bytes */
export function cardBytes(c) {
  return joined(parseHex(c.vacantId), utf8(c.capabilityText), utf8(canonical(specOf(c))), uint64(c.haloVersion), utf8(c.endpoint));
}

/** @param {Card} c @returns {string} the hash, which does not cover the signature */
export const cardHash = (c) => hash(cardBytes(c));

/** @param {Card} c @returns {string} the serialised card */
export function cardBlob(c) {
  return canonical({
    capability_text: c.capabilityText, endpoint: c.endpoint || null, halo_version: c.haloVersion,
    signature: c.signature, substrate_spec: specOf(c), vacant_id: c.vacantId,
  });
}

/** @param {Card} c @param {Signer} signer @returns {Promise<Card>} the signed card */
export async function signCard(c, signer) {
  if (signer.id !== c.vacantId) throw new VacantError("untrusted", `a card of ${shortID(c.vacantId)} cannot be signed by ${shortID(signer.id)}`);
  // One character separates the signed fields, so no new field may have it.
  if (/[\x00-\x1f\x7f-\x9f]/.test([c.capabilityText, c.endpoint, ...c.allowedSubstrates].join(""))) {
    throw malformed("expected no control character in a new card");
  }
  return { ...c, signature: await sign(signer, cardBytes(c)) };
}

/** @param {Card} c @returns {Promise<boolean>} */
export const verifyCard = (c) => verify(c.vacantId, cardBytes(c), c.signature);

// ---- Events --------------------------------------------------------------------------

/** @param {RegistryEvent} e @returns {Bytes} the signed bytes */
export function eventBytes(e) {
  const none = new Uint8Array(0);
  return joined(utf8(e.type), utf8(e.actor), none, blake2b(e.payload), utf8(e.key), parseHex(e.actor), uint64(e.time), uint64(e.actorSeq));
}

/** @param {RegistryEvent} e @param {string} prev the hash of the event before, or ZERO_HASH @returns {string} */
export const eventHash = (e, prev) => hash(concat(parseHex(prev), eventBytes(e), parseHex(e.signature)));

/** @param {RegistryEvent} e @returns {Promise<boolean>} */
export const verifyEvent = (e) => verify(e.actor, eventBytes(e), e.signature);

// ---- Signed reads --------------------------------------------------------------------

/** @typedef {{authority: string, method: string, target: string, body?: Uint8Array}} ReadRequest */

/** @param {ReadRequest} r @param {number} seconds @returns {Bytes} */
function readBytes(r, seconds) {
  const parts = [r.body?.length ? "vacancy:request:v1" : "vacancy:read:v1", r.authority.toLowerCase(), r.method, r.target, String(seconds)];
  if (r.body?.length) parts.push(hash(r.body));
  if (/[\x00-\x1f\x7f]/.test(r.authority + r.method + r.target)) throw malformed("expected a method and an address without control characters");
  return utf8(parts.join("\x1f"));
}

/**
 * Makes the value of the header Vacancy-Caller, which proves who reads.
 * @param {Signer} signer @param {ReadRequest} request authority is the host and port, target the path and query as sent
 * @param {number} [seconds] Unix time @returns {Promise<string>}
 */
export async function readProof(signer, request, seconds = Math.floor(Date.now() / 1000)) {
  return `${signer.id};t=${seconds};sig=${await sign(signer, readBytes(request, seconds))}`;
}
