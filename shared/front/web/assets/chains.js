// @ts-check
/**
 * Verifies the calls of this browser, and files of "vacancy export" or "vacancy chain --json",
 * part by part, and names each broken part as "vacancy verify FILE" does. A file never leaves
 * the browser.
 * @module
 */

import {
  canonical, canonicalTime, checkID, compareKeys, concat, envelopeHash, hash, isReset, JSONNumber, parseCard, parseHash, parseHex, parseID, parseJSON, parseMessage, replyKey, shortID, signerFromSeed, textOf,
  utf8, VacantError, verify, verifyCard, verifyEnvelope, ZERO_HASH,
} from "./vacant.js";
import { Book } from "./book.js";
import { element, visible } from "./dom.js";

/** @typedef {import("./vacant.js").Value} Value */
/** @typedef {import("./vacant.js").JSONObject} JSONObject */
/** @typedef {import("./vacant.js").Envelope} Envelope */
/** @typedef {{part: string, ok: boolean | null, detail: string}} Finding ok is null if the file has nothing to check it by */
/** @typedef {{format: string, name: string, parts: Finding[]}} Report */
/** @typedef {import("./book.js").Call} Call */

/** The largest file in bytes. */
const maxFile = 256 << 20;
const limits = { bytes: maxFile, depth: 32, keys: 1 << 20 };
/** Of a line of a history: a call and its answer, each with its text twice. */
const lineLimits = { bytes: 8 << 20, depth: 32, keys: 1 << 10 };
/** So many broken entries are named. */
const maxNamed = 100;

/** @param {string} message @returns {VacantError} */
const wrong = (message) => new VacantError("malformed", message);

/** @param {unknown} err @returns {string} the text of a refusal; other errors are thrown */
function refusal(err) {
  if (err instanceof VacantError) return err.message;
  throw err;
}

/** Lets the page paint. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** @param {Value | undefined} v @param {string} name @returns {string} */
function text(v, name) {
  if (typeof v !== "string") throw wrong(`${name}: expected a string`);
  return v;
}

/** @param {Value | undefined} v @param {string} name @returns {JSONObject} */
function object(v, name) {
  if (!(v instanceof Map)) throw wrong(`${name}: expected an object`);
  return v;
}

/** @param {Value | undefined} v @param {string} name @returns {Value[]} */
function array(v, name) {
  if (!Array.isArray(v)) throw wrong(`${name}: expected an array`);
  return v;
}

/** @param {Value | undefined} v @param {string} name @param {number} least @returns {number} */
function integer(v, name, least) {
  if (!(v instanceof JSONNumber) || v.float || !Number.isSafeInteger(v.value) || v.value < least) throw wrong(`${name}: expected an integer of at least ${least}`);
  return v.value;
}

/** @template {string} T @param {Value | undefined} v @param {string} name @param {readonly T[]} words @returns {T} */
function word(v, name, words) {
  const found = words.find((w) => w === v);
  if (found === undefined) throw wrong(`${name}: expected ${words.join(", ")}`);
  return found;
}

/** Refuses members of other names. @param {JSONObject} o @param {string} what @param {readonly string[]} names */
function only(o, what, names) {
  for (const key of o.keys()) if (!names.includes(key)) throw wrong(`${JSON.stringify(key)}: expected a member of ${what}`);
}

// ---- Exports ---------------------------------------------------------------------------

const exportFormat = "vacancy-export/1";

/** @param {Value} value @returns {Promise<Report>} */
async function verifyExport(value) {
  const file = object(value, "not an export of vacancy");
  if (file.get("format") !== exportFormat) throw wrong(`format: expected ${exportFormat}`);
  for (const key of ["exported", "name", "id", "seed_hex"]) if (file.has(key)) text(file.get(key), key);
  const lines = file.has("logbook") ? array(file.get("logbook"), "logbook") : [];
  const chains = file.has("chains") ? object(file.get("chains"), "chains") : new Map();
  const report = { format: exportFormat, name: text(file.get("name") ?? "", "name"), parts: /** @type {Finding[]} */ ([]) };
  /** @param {string} part @param {() => Promise<string> | string} check @returns {Promise<void>} */
  const add = async (part, check) => {
    try {
      report.parts.push({ part, ok: true, detail: await check() });
    } catch (err) {
      report.parts.push({ part, ok: false, detail: refusal(err) });
    }
  };
  let id;
  try {
    id = parseID(text(file.get("id") ?? "", "id"));
  } catch (err) {
    report.parts.push({ part: "id", ok: false, detail: refusal(err) });
    return report;
  }
  const owner = id;
  await add("key", () => checkKey(text(file.get("seed_hex") ?? "", "seed_hex"), owner));
  await add("card", () => checkCard(file.get("card") ?? null, owner));
  await add("logbook", () => checkLogbook(lines, owner));
  const manifest = file.get("manifest") ?? null;
  if (manifest !== null) await add("manifest", () => checkManifest(manifest, owner));
  await checkChains(report.parts, chains, owner);
  return report;
}

/** @param {string} hex @param {string} id */
async function checkKey(hex, id) {
  if (!/^[0-9a-fA-F]{64}$/.test(hex)) throw wrong("seed_hex: expected 64 hex digits");
  const signer = await signerFromSeed(parseHex(hex));
  if (signer.id !== id) throw wrong(`the seed is the key of ${signer.id}, the file says ${id}`);
  return `the seed is the key of ${id}`;
}

/** @param {Value} card @param {string} id */
async function checkCard(card, id) {
  if (card === null) return "none";
  const c = parseCard(canonical(card));
  if (c.vacantId !== id) throw wrong(`it is the card of ${c.vacantId}`);
  if (!(await verifyCard(c))) throw wrong("its signature does not verify");
  return "signed by the id";
}

/** @param {Value[]} lines @param {string} id */
async function checkLogbook(lines, id) {
  const separator = new Uint8Array([0x1f]);
  let prev = ZERO_HASH;
  for (const [i, line] of lines.entries()) {
    if (i % 256 === 255) await pause();
    let bytes, link, signature;
    try {
      const e = object(line, "log entry");
      const kind = text(e.get("kind"), "kind");
      if (kind.trim() === "") throw wrong("kind: expected a name, got a blank string");
      const ts = canonicalTime(text(e.get("ts"), "ts"));
      const payload = canonical(object(e.get("payload"), "payload"));
      link = parseHash(text(e.get("prev_hash"), "prev_hash"));
      signature = parseHex(text(e.get("signature"), "signature")).length === 64 ? text(e.get("signature"), "signature") : "";
      bytes = concat(utf8(kind), separator, utf8(ts), separator, utf8(payload), separator, parseHex(link));
    } catch (err) {
      throw wrong(`entry ${i}: ${refusal(err)}`);
    }
    if (link !== prev) throw wrong(`Logbook entry ${i} prev_hash mismatch: expected ${prev}, got ${link}`);
    if (!(await verify(id, bytes, signature))) throw wrong(`Logbook entry ${i} signature invalid`);
    prev = hash(bytes);
  }
  if (lines.length === 0) throw wrong("it is empty; a logbook begins with an entry");
  return `entries: ${lines.length}, each linked and signed by the id`;
}

const toolLists = ["tool_whitelist_added", "tool_whitelist_inherited", "tool_whitelist_removed"];
const manifestMembers = ["parent_id", "child_id", "birth_path", "closed_by_default", ...toolLists, "endpoint_reachability", "outbound_policy", "schema_version", "signature_parent", "signature_child"];

/** @param {Value} value @param {string} id */
async function checkManifest(value, id) {
  const m = object(value, "manifest");
  only(m, "a manifest", manifestMembers);
  const party = (/** @type {string} */ key) => {
    const found = parseID(text(m.get(key), key));
    checkID(found);
    return found;
  };
  const [parent, child] = [party("parent_id"), party("child_id")];
  if (parent === child) throw wrong("child_id: expected an id other than parent_id");
  const schema = word(m.get("schema_version") ?? "v2", "schema_version", ["v1", "v2"]);
  const closed = m.has("closed_by_default") ? m.get("closed_by_default") : true;
  if (typeof closed !== "boolean") throw wrong("closed_by_default: expected a boolean");
  const tools = toolLists.map((key) => {
    const list = array(m.get(key) ?? [], key).map((tool) => text(tool, key));
    if (list.length > 256 || list.some((tool) => utf8(tool).length > 256)) throw wrong(`${key}: expected at most 256 names of at most 256 bytes`);
    return /** @type {const} */ ([key, list.sort(compareKeys)]);
  });
  /** @type {Record<string, unknown>} */
  const signed = { birth_path: word(m.get("birth_path"), "birth_path", ["D1", "D2", "D3", "D4", "D5"]), child_id: child, closed_by_default: closed, parent_id: parent, ...Object.fromEntries(tools) };
  const reach = word(m.get("endpoint_reachability") ?? "parent-only", "endpoint_reachability", ["parent-only", "parent-bridged", "public_a2a"]);
  const outbound = word(m.get("outbound_policy") ?? "no-external", "outbound_policy", ["no-external", "parent-permitted", "unrestricted"]);
  if (schema === "v2") Object.assign(signed, { endpoint_reachability: reach, outbound_policy: outbound });
  const bytes = utf8(canonical(signed));
  for (const [who, signer] of [["parent", parent], ["child", child]]) {
    const signature = text(m.get(`signature_${who}`) ?? "", `signature_${who}`);
    if (signature === "") throw wrong(`manifest missing ${who} signature`);
    if (!(await verify(signer, bytes, signature))) throw wrong(`manifest ${who} signature invalid for ${shortID(signer)}`);
  }
  if (child !== id) throw wrong(`it belongs to ${child}`);
  return `signed by the id and its parent ${parent}`;
}

/** @param {Finding[]} parts @param {JSONObject} chains @param {string} owner */
async function checkChains(parts, chains, owner) {
  const seen = new Set();
  let whole = true;
  for (const [target, state] of chains) {
    await pause();
    let name = JSON.stringify(target.slice(0, 40));
    try {
      const id = parseID(target);
      name = shortID(id);
      await checkState(object(state, "call state"), owner, id);
      if (seen.has(id)) throw wrong("it occurs twice");
      seen.add(id);
    } catch (err) {
      whole = false;
      parts.push({ part: "chain", ok: false, detail: `${name}: ${refusal(err)}` });
    }
  }
  if (whole) parts.push({ part: "chains", ok: true, detail: `targets: ${chains.size}` });
}

const stateMembers = ["format", "self", "target", "request", "response", "sent", "live", "old", "reset", "job", "signed", "ahead_us", "bound", "lost", "late"];
const lateMembers = ["request", "fate", "detail", "code", "cut", "reply", "reply_seq", "reply_hash"];

/** @param {Value | undefined} v @returns {Envelope} */
const envelope = (v) => parseMessage(canonical(object(v, "envelope")));

/** @param {JSONObject} s @param {string} owner @param {string} target */
async function checkState(s, owner, target) {
  only(s, "a call state", stateMembers);
  if ([...s.keys()][0] !== "format" || s.size !== stateMembers.length) throw wrong(`members: expected ${stateMembers.length}, the format first`);
  if (integer(s.get("format"), "format", 0) !== 1) throw wrong("format: expected 1, or a newer program");
  const point = (/** @type {string} */ key) => {
    const p = object(s.get(key), key);
    only(p, "seq or hash", ["seq", "hash"]);
    const out = { seq: p.has("seq") ? integer(p.get("seq"), "seq", 0) : 0, hash: p.has("hash") ? parseHash(text(p.get("hash"), "hash")) : ZERO_HASH };
    if ((out.seq === 0) !== (out.hash === ZERO_HASH)) throw wrong("seq: expected a sequence number and its hash");
    return out;
  };
  const [self, to, request] = [parseID(text(s.get("self"), "self")), parseID(text(s.get("target"), "target")), point("request")];
  point("response");
  const [sent, live, old] = ["sent", "live", "old"].map((key) => array(s.get(key), key).map(envelope));
  const reset = s.get("reset") === null ? [] : [envelope(s.get("reset"))];
  text(s.get("job"), "job");
  if (s.get("signed") !== null) canonicalTime(text(s.get("signed"), "signed"));
  if (Math.abs(integer(s.get("ahead_us"), "ahead_us", -Number.MAX_SAFE_INTEGER)) > 3_600_000_000) throw wrong("ahead_us: expected at most an hour");
  if (typeof s.get("bound") !== "boolean") throw wrong("bound: expected a boolean");
  integer(s.get("lost"), "lost", 0);
  array(s.get("late"), "late").forEach((l) => checkLate(object(l, "late")));
  const listed = [...sent, ...live, ...old, ...reset];
  for (const e of listed) if (e.from !== self || e.to !== to) throw wrong("envelope: expected one from self to target");
  for (const e of sent) if (e.seq !== request.seq + 1 || e.prev !== request.hash) throw wrong("sent: expected envelopes that follow the last settled one");
  if (self !== owner) throw wrong(`it is a chain of ${shortID(self)}`);
  if (to !== target) throw wrong(`it is a chain to ${shortID(to)}`);
  for (const e of listed) if (!(await verifyEnvelope(e))) throw wrong(`the signature of call ${e.seq} does not verify`);
}

/** @param {JSONObject} l */
function checkLate(l) {
  only(l, "a late outcome", lateMembers);
  envelope(l.get("request"));
  const fate = word(l.get("fate"), "fate", ["answered", "text_gone", "unanswered", "lost"]);
  for (const key of ["detail", "code", "cut"]) if (l.has(key)) text(l.get(key), key);
  if (l.has("reply_seq")) integer(l.get("reply_seq"), "reply_seq", -Number.MAX_SAFE_INTEGER);
  if (l.has("reply_hash")) parseHash(text(l.get("reply_hash"), "reply_hash"));
  const reply = l.get("reply") ?? null;
  if (reply !== null) envelope(reply);
  if ((fate === "answered") !== (reply !== null)) throw wrong("reply: expected an answer if and only if the fate is answered");
}

// ---- Histories -------------------------------------------------------------------------

/** @typedef {{at: number, epoch: number, entry: number, seq: number, hash: string, prev: string}} Decision at is its position, and entry the position of its call; seq is 0 for a call without an answer */

/**
 * Verifies the lines of "vacancy chain --json" one by one, in memory that grows only with the
 * answers: positions, epochs, numbers, times, links, signatures, that each answer is bound to its
 * call, and that each decision belongs to one call.
 */
class History {
  constructor() {
    this.entries = 0;
    this.first = 0; // position of the first one
    this.broken = 0;
    /** @type {Finding[]} */
    this.named = [];
    /** @type {{position: number, epoch: number, seq: number, hash: string} | null} */
    this.last = null;
    this.latest = "";
    this.unread = 0;
    this.signed = 0;
    /** The epoch in which a file begins that lacks the calls before, so calls of it may be missing; -1 of a whole history. */
    this.open = -1;
    /** The caller's id and the vacant's, as the first signed message names them. */
    this.pair = ["", ""];
    /** @type {Decision[]} */
    this.decisions = [];
  }

  /** @param {string} part @param {string} detail */
  fail(part, detail) {
    this.broken++;
    if (this.named.length < maxNamed) this.named.push({ part, ok: false, detail });
  }

  /** @param {Uint8Array} line */
  async add(line) {
    const at = ++this.entries;
    let position = 0;
    try {
      const e = object(parseJSON(line, lineLimits), "entry");
      position = integer(e.get("position"), "position", 1);
      this.first ||= position;
      const kind = word(e.get("kind"), "kind", ["call", "reset"]);
      const [epoch, seq] = [integer(e.get("epoch"), "epoch", 0), integer(e.get("seq"), "seq", kind === "reset" ? 0 : 1)];
      const time = text(e.get("time"), "time");
      if (canonicalTime(time) !== time) throw wrong("time: expected its canonical form");
      const [hash, prev] = [parseHash(text(e.get("hash"), "hash")), parseHash(text(e.get("prev"), "prev"))];
      if (hash === ZERO_HASH) throw wrong("hash: expected the hash of an envelope");
      if (!this.last && position !== 1 && kind === "call") this.open = epoch;
      this.place(position, kind, epoch, seq, time);
      const before = kind === "reset" ? prev : seq === 1 ? ZERO_HASH : (this.last?.hash ?? prev);
      if (prev !== before) this.fail("links", `entry ${position}: it names ${prev} as the call before, expected ${before}`);
      await this.said(position, "the message", e, { kind, seq, time, hash, prev, idem: "" });
      if (kind === "call") await this.decide(position, epoch, hash, e);
      this.last = { position, epoch, seq, hash };
      if (time > this.latest) this.latest = time;
    } catch (err) {
      this.fail("entry", `${position ? `entry ${position}` : `line ${at}`}: ${refusal(err)}`);
    }
  }

  /** @param {number} position @param {string} kind @param {number} epoch @param {number} seq @param {string} time */
  place(position, kind, epoch, seq, time) {
    const { last } = this;
    if (last && position !== last.position + 1) this.fail("numbers", `entry ${position}: expected position ${last.position + 1}, so entries are missing or moved`);
    const [wantEpoch, wantSeq] = kind === "reset" ? [(last?.epoch ?? epoch - 1) + 1, 0] : [last?.epoch ?? epoch, last ? last.seq + 1 : position === 1 ? 1 : seq];
    if (epoch !== wantEpoch) this.fail("epochs", `entry ${position}: expected epoch ${wantEpoch}, got ${epoch}`);
    else if (seq !== wantSeq) this.fail("numbers", `entry ${position}: expected call ${epoch}.${wantSeq}, got ${epoch}.${seq}`);
    if (kind === "reset" && time <= this.latest) this.fail("epochs", `entry ${position}: a reset is signed later than everything before it, ${this.latest}`);
  }

  /**
   * Verifies a signed message, and that it is the one that its entry tells of.
   * @param {number} position @param {string} what the message or the answer @param {JSONObject} e
   * @param {{kind: string, seq: number, time: string, hash: string, prev: string, idem: string}} told an answer has a key, and a reset no number
   */
  async said(position, what, e, told) {
    if (e.get("damaged") === true) return this.fail("texts", `entry ${position}: its text is damaged`);
    if (e.get("sealed") === true) return void this.unread++;
    const said = text(e.get("text"), "text");
    const m = parseMessage(canonical(object(e.get("message"), "message")));
    this.signed++;
    const answers = m.payload.role === "ROLE_AGENT";
    const [from, to] = told.idem ? [m.to, m.from] : [m.from, m.to];
    if (this.pair[0] === "") this.pair = [from, to];
    if (from !== this.pair[0] || to !== this.pair[1]) this.fail("bindings", `entry ${position}: ${what} is of another pair`);
    // A signature is for one purpose: an answer of a vacant does not become its call, and a call does not become a reset.
    if (answers !== (told.kind === "answer") || (told.kind !== "answer" && m.idem.startsWith(replyKey(""))) || (told.kind === "reset" && !isReset(m))) {
      this.fail("bindings", `entry ${position}: ${what} is not signed as ${told.kind === "answer" ? "an answer" : `a ${told.kind}`}`);
    }
    if (told.idem && m.idem !== told.idem) this.fail("bindings", `entry ${position}: the answer is not bound to the call`);
    if (envelopeHash(m) !== told.hash || m.prev !== told.prev || m.ts !== told.time || (told.kind !== "reset" && m.seq !== told.seq) || textOf(m) !== said) {
      this.fail("links", `entry ${position}: ${what} is not the one that the entry tells of`);
    }
    if (!(await verifyEnvelope(m))) this.fail("signatures", `entry ${position}: the signature of ${what} does not verify`);
  }

  /** @param {number} position @param {number} epoch @param {string} hash of the call @param {JSONObject} e */
  async decide(position, epoch, hash, e) {
    const fate = word(e.get("fate"), "fate", ["answered", "void", "closed", "pending"]);
    const decision = e.get("decision");
    if ((fate === "answered" || fate === "void") !== (decision !== undefined)) throw wrong(`decision: expected one for an answered or void call, and for no other; the call is ${fate}`);
    if (decision === undefined) return;
    const d = object(decision, "decision");
    const at = integer(d.get("position"), "decision.position", 1);
    const answer = d.get("answer");
    if ((fate === "answered") !== (answer !== undefined)) throw wrong(`answer: expected one for an answered call, and for no other; the call is ${fate}`);
    if (answer === undefined) {
      this.decisions.push({ at, epoch, entry: position, seq: 0, hash: "", prev: "" });
      return;
    }
    const a = object(answer, "answer");
    const time = text(a.get("time"), "answer.time");
    if (canonicalTime(time) !== time) throw wrong("answer.time: expected its canonical form");
    const seq = integer(a.get("seq"), "answer.seq", 1);
    const [own, prev] = [parseHash(text(a.get("hash"), "answer.hash")), parseHash(text(a.get("prev"), "answer.prev"))];
    await this.said(position, "the answer", a, { kind: "answer", seq, time, hash: own, prev, idem: replyKey(hash) });
    this.decisions.push({ at, epoch, entry: position, seq, hash: own, prev });
  }

  /** @returns {Finding[]} */
  end() {
    this.decisions.sort((a, b) => a.at - b.at);
    let [before, epoch, seq, tip] = [0, -1, 0, ZERO_HASH];
    for (const d of this.decisions) {
      if (d.at === before) this.fail("bindings", `entry ${d.entry}: decision ${d.at} is the decision of another call, too`);
      // Of calls that the file lacks, there are answers before the first one, and where decisions are missing.
      const gap = d.epoch === this.open && (d.epoch !== epoch || d.at !== before + 1);
      before = d.at;
      if (!d.seq) continue;
      if (d.epoch !== epoch) [epoch, seq, tip] = [d.epoch, 0, ZERO_HASH];
      if (d.seq === seq + 1) {
        if (d.prev !== tip) this.fail("links", `entry ${d.entry}: its answer names ${d.prev} as the answer before, expected ${tip}`);
      } else if (!gap || d.seq <= seq) {
        this.fail("bindings", `entry ${d.entry}: expected answer ${epoch}.${seq + 1}, got ${epoch}.${d.seq}`);
      }
      [seq, tip] = [d.seq, d.hash];
    }
    if (this.broken > this.named.length) this.named.push({ part: "more", ok: false, detail: `${this.broken - maxNamed} more are broken` });
    if (this.entries === 0) this.named.push({ part: "entries", ok: false, detail: "the file has none" });
    if (this.named.length === 0) this.named.push({ part: "entries", ok: true, detail: `entries: ${this.entries}, from ${this.first} to ${this.first + this.entries - 1}, in order and linked, each decided at most once${this.first > 1 ? "; those before are not in the file" : ""}` });
    if (!this.named.some((f) => f.part === "signatures") && this.signed > 0) this.named.push({ part: "signatures", ok: true, detail: `messages: ${this.signed}, each signed by its sender, from ${shortID(this.pair[0])} to ${shortID(this.pair[1])} and back` });
    if (this.unread > 0) this.named.push({ part: "signatures", ok: null, detail: `messages that can no longer be read: ${this.unread}; neither their hashes nor their signatures can be checked` });
    return this.named;
  }
}

/** @param {Blob} file @param {(bytes: number) => void} progress @returns {Promise<Finding[]>} */
async function verifyHistory(file, progress) {
  const history = new History();
  const reader = file.stream().getReader();
  let [rest, read] = [new Uint8Array(), 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const bytes = concat(rest, value);
    let from = 0;
    for (let end; (end = bytes.indexOf(newline, from)) >= 0; from = end + 1) await history.add(bytes.subarray(from, end));
    rest = bytes.slice(from);
    if (rest.length > lineLimits.bytes) {
      history.fail("entry", `line ${history.entries + 1}: the line is too long`);
      return history.end();
    }
    progress((read += value.length));
    await pause();
  }
  // Every line ends with a newline, so a rest was cut off.
  if (rest.length > 0) history.fail("entry", `line ${history.entries + 1}: the file ends before the end of the line`);
  return history.end();
}

const newline = 10;

/**
 * Verifies a dropped file.
 * @param {Blob} file @param {(bytes: number) => void} [progress]
 * @returns {Promise<Report>}
 */
export async function verifyFile(file, progress = () => {}) {
  if (file.size > maxFile) return { format: "unknown", name: "", parts: [{ part: "file", ok: false, detail: `expected at most ${maxFile} bytes, got ${file.size}` }] };
  const head = await file.slice(0, 64).text();
  if (head.startsWith('{"position":')) return { format: "vacancy chain --json", name: "", parts: await verifyHistory(file, progress) };
  try {
    return await verifyExport(parseJSON(new Uint8Array(await file.arrayBuffer()), limits));
  } catch (err) {
    return { format: "unknown", name: "", parts: [{ part: "file", ok: false, detail: `neither a file of "vacancy export" nor of "vacancy chain --json": ${refusal(err)}` }] };
  }
}

// ---- Calls of this browser -------------------------------------------------------------

/**
 * Verifies the settled calls of one pair, oldest first: signatures, hashes, bindings, and the
 * links of both chains from reset to reset.
 * @param {Call[]} calls
 * @returns {Promise<Finding[]>}
 */
export async function verifyCalls(calls) {
  /** @type {Finding[]} */
  const findings = [];
  const start = { seq: 0, hash: ZERO_HASH };
  let [request, response, reset] = [start, start, ""];
  let late = 0;
  for (const call of calls) {
    const { request: e, reply, epoch } = call;
    const name = call.fate === "reset" ? `reset ${epoch + 1}` : `call ${epoch}.${e.seq}`;
    const fail = (/** @type {string} */ part, /** @type {string} */ detail) => findings.push({ part, ok: false, detail: `${name}: ${detail}` });
    const digest = envelopeHash(e);
    if (e.from !== call.self || e.to !== call.target) fail("bindings", "it is a call of another pair");
    if (digest !== call.requestHash) fail("links", `the hash of the request is ${digest}, the browser kept ${call.requestHash}`);
    if (!(await verifyEnvelope(e, call.self))) fail("signatures", "the signature of the request does not verify");
    if (reply) {
      if (!(await verifyEnvelope(reply, call.target))) fail("signatures", "the signature of the answer does not verify");
      if (reply.from !== call.target || reply.to !== call.self || reply.idem !== replyKey(digest)) fail("bindings", "the answer is not bound to the request");
      if (envelopeHash(reply) !== call.replyHash || reply.seq !== call.replySeq) fail("links", "the answer is not the one that the browser kept a hash of");
    } else if (call.fate === "answered") {
      fail("bindings", "its answer is missing");
    }
    if (call.fate === "reset") {
      if (reset && e.ts <= reset) fail("epochs", `the reset is signed at ${e.ts}, and the one before at ${reset}`);
      [request, response, reset] = [start, start, e.ts];
      continue;
    }
    // An overtaken message whose fate was learnt later has no place in the chain.
    if ((reset && e.ts <= reset) || e.seq <= request.seq || call.checks?.position === null) {
      late++;
      continue;
    }
    if (e.seq !== request.seq + 1) fail("numbers", `expected call ${epoch}.${request.seq + 1}, so calls are missing`);
    else if (e.prev !== request.hash) fail("links", `it names ${e.prev} as the call before, expected ${request.hash}`);
    request = { seq: e.seq, hash: digest };
    if (call.replySeq === 0) continue;
    if (call.replySeq !== response.seq + 1) fail("numbers", `expected answer ${epoch}.${response.seq + 1}, got ${epoch}.${call.replySeq}`);
    else if (reply && reply.prev !== response.hash) fail("links", `its answer names ${reply.prev} as the answer before, expected ${response.hash}`);
    response = { seq: call.replySeq, hash: call.replyHash };
  }
  const detail = `calls: ${calls.length}, signed, bound and linked${late ? `; ${late} of them out of the chain, because their fate was learnt later` : ""}`;
  return findings.length > 0 ? findings : [{ part: "calls", ok: true, detail }];
}

// ---- The page --------------------------------------------------------------------------

/** @param {Finding} finding @returns {HTMLElement} */
function line({ part, ok, detail }) {
  const state = ok === null ? "not checked" : ok ? "verified" : "failed";
  const kind = ok === null ? "muted" : ok ? "ok" : "bad";
  return element("li", { class: kind, "data-state": state }, element("strong", {}, `${part}: ${state}`), ` — ${visible(detail)}`);
}

/** @param {HTMLElement} place @param {string} title @param {Report} report */
function show(place, title, report) {
  const whole = report.parts.every((p) => p.ok !== false);
  const name = report.name ? ` of ${visible(report.name)}` : "";
  place.replaceChildren(
    element("h2", { class: whole ? "ok" : "bad" }, `${visible(title)}: ${whole ? "whole" : "broken"}`),
    element("p", {}, report.format + name),
    element("ul", {}, ...report.parts.map(line)),
  );
  place.setAttribute("aria-busy", "false");
}

/** @param {HTMLElement} place @param {File} file */
async function verifyDropped(place, file) {
  place.setAttribute("aria-busy", "true");
  place.textContent = `Verifying ${visible(file.name)} …`;
  await pause();
  const progress = (/** @type {number} */ bytes) => {
    place.textContent = `Verifying ${visible(file.name)}: ${Math.floor((100 * bytes) / file.size)} %`;
  };
  try {
    show(place, file.name, await verifyFile(file, progress));
  } catch (err) {
    show(place, file.name, { format: "unknown", name: "", parts: [{ part: "file", ok: null, detail: `it could not be read: ${err instanceof Error ? err.message : err}` }] });
  }
}

/** Shows the verdict on the calls of each pair. @param {HTMLElement} place */
async function showOwn(place) {
  const own = element("section", { id: "own", "aria-labelledby": "own-title", "aria-busy": "true" }, element("h2", { id: "own-title" }, "Calls of this browser"));
  place.append(own);
  try {
    const book = await Book.open();
    const pairs = Map.groupBy(await book.calls(), (call) => call.pair);
    if (pairs.size === 0) own.append(element("p", {}, "This browser has not called a vacant of this host yet."));
    for (const calls of pairs.values()) {
      const findings = await verifyCalls(calls);
      own.append(element("h3", {}, `${shortID(calls[0].self)} to ${shortID(calls[0].target)}`), element("ul", {}, ...findings.map(line)));
      await pause();
    }
  } catch (err) {
    own.append(element("p", { class: "muted" }, `not checked: this browser stores nothing for this site (${err instanceof Error ? err.message : err})`));
  }
  own.setAttribute("aria-busy", "false");
}

const section = document.getElementById("chains");
const input = section?.querySelector("input[type=file]");
const verdict = document.getElementById("verdict");
if (section && input instanceof HTMLInputElement && verdict) {
  input.onchange = () => {
    if (input.files?.[0]) verifyDropped(verdict, input.files[0]);
  };
  document.ondragover = (event) => event.preventDefault();
  document.ondrop = (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) verifyDropped(verdict, file);
  };
  showOwn(section);
}
