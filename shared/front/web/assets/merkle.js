// @ts-check
/**
 * The transparency log of a host: checkpoints as signed notes (C2SP), proofs of RFC 6962,
 * and the epoch roots of the reference (PROTOCOL.md §19.3).
 * @module
 */

import { blake2b, concat, fromBase64, parseHex, parseID, toBase64, toHex, utf8, VacantError, verify } from "./vacant.js";

/** @typedef {import("./vacant.js").Bytes} Bytes */
/** @typedef {{host: string, size: number, root: string}} Checkpoint the root is hex */
/** @typedef {{name: string, witness: string, time: number}} Cosignature witness is empty for a known key; time is Unix seconds */
/** @typedef {{name: string, id: string}} KnownWitness */

/** The largest note in bytes. */
export const MAX_NOTE = 16 << 10;

/** @param {string} message @returns {VacantError} */
const untrusted = (message) => new VacantError("untrusted", message);

// ---- The tree ------------------------------------------------------------------------

/** @param {Bytes} bytes @returns {Promise<Bytes>} */
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @param {string} eventHash @returns {Promise<Bytes>} */
export const leafHash = (eventHash) => sha256(concat(new Uint8Array([0]), parseHex(eventHash)));

/** @param {Uint8Array} left @param {Uint8Array} right @returns {Promise<Bytes>} */
export const nodeHash = (left, right) => sha256(concat(new Uint8Array([1]), left, right));

// The root of no leaves is the hash of no bytes.
const emptyRoot = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/**
 * Verifies that an event is in a log, and throws if it is not proved.
 * @param {Checkpoint} log @param {number} seq of the event, from 1 @param {string} event its hash
 * @param {string[]} proof hashes in hex, from the leaf upward @returns {Promise<void>}
 */
export async function verifyInclusion(log, seq, event, proof) {
  const failed = untrusted(`event ${seq} is not proved to be in the log of ${log.size}`);
  if (!positive(seq) || !positive(log.size) || seq > log.size) throw failed;
  const nodes = hashesOf(proof);
  const { inner, border } = pathOf(BigInt(seq - 1), BigInt(log.size));
  if (nodes.length !== inner + border) throw failed;
  const root = await climb(await leafHash(event), nodes, inner, BigInt(seq - 1));
  if (toHex(root) !== log.root) throw failed;
}

/**
 * Verifies that one log begins with another, and throws if it is not proved.
 * @param {Checkpoint} from @param {Checkpoint} to @param {string[]} proof hashes in hex @returns {Promise<void>}
 */
export async function verifyConsistency(from, to, proof) {
  const failed = untrusted(`the log of ${to.size} is not proved to begin with the log of ${from.size}`);
  const nodes = hashesOf(proof);
  if (from.size === 0) {
    // Every tree continues the empty tree, if the first one is that.
    if (from.root !== emptyRoot || nodes.length > 0) throw failed;
    return;
  }
  if (!positive(from.size) || !positive(to.size) || from.size > to.size) throw failed;
  if (from.size === to.size) {
    if (from.root !== to.root || nodes.length > 0) throw failed;
    return;
  }
  const size = BigInt(from.size);
  let { inner, border } = pathOf(size - 1n, BigInt(to.size));
  let index = size - 1n;
  let whole = true; // the first tree is a perfect tree, so its root is not in the proof
  for (; index & 1n; index >>= 1n) inner--;
  if (index !== 0n) whole = false;
  const seed = whole ? parseHex(from.root) : nodes.shift();
  if (!seed || nodes.length !== inner + border) throw failed;
  let first = seed;
  for (const [i, node] of nodes.entries()) {
    if (i >= inner || (index >> BigInt(i)) & 1n) first = await nodeHash(node, first);
  }
  if (toHex(first) !== from.root || toHex(await climb(seed, nodes, inner, index)) !== to.root) throw failed;
}

/** @param {number} n @returns {boolean} */
const positive = (n) => Number.isSafeInteger(n) && n > 0;

/** @param {string[]} proof @returns {Bytes[]} */
function hashesOf(proof) {
  if (!Array.isArray(proof) || proof.length > 128) throw untrusted("expected a proof of at most 128 hashes");
  return proof.map((text) => {
    if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) throw untrusted("expected hashes of 64 hexadecimal digits in a proof");
    return parseHex(text);
  });
}

/**
 * Splits the path of a leaf where the path of the last leaf parts from it: below, a node is
 * on either side; above, every node is on the left.
 * @param {bigint} index @param {bigint} size
 */
function pathOf(index, size) {
  let inner = 0;
  for (let n = index ^ (size - 1n); n > 0n; n >>= 1n) inner++;
  let border = 0;
  for (let n = index >> BigInt(inner); n > 0n; n >>= 1n) border += Number(n & 1n);
  return { inner, border };
}

/** @param {Bytes} hash @param {Bytes[]} nodes @param {number} inner @param {bigint} index @returns {Promise<Bytes>} */
async function climb(hash, nodes, inner, index) {
  for (const [i, node] of nodes.entries()) {
    const left = i >= inner || ((index >> BigInt(i)) & 1n) === 1n;
    hash = left ? await nodeHash(node, hash) : await nodeHash(hash, node);
  }
  return hash;
}

// ---- Checkpoints ---------------------------------------------------------------------

const originPrefix = "vacancy/";
const witnessPrefix = "vacant/";
const keyEd25519 = 1;
const keyCosignature = 4; // Ed25519 with a time: cosignature/v1

/** @param {Checkpoint} c @returns {string} the signed text, three lines */
export function checkpointText(c) {
  return `${originPrefix}${c.host}\n${c.size}\n${toBase64(parseHex(c.root))}\n`;
}

/** @param {string} text @returns {Checkpoint} of its one canonical text */
export function parseCheckpoint(text) {
  const m = /^vacancy\/([0-9a-f]{64})\n(0|[1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n$/.exec(text);
  if (!m) throw untrusted("expected a checkpoint of three lines: origin, size, root");
  const c = { host: parseID(m[1]), size: Number(m[2]), root: toHex(fromBase64(m[3])) };
  if (!Number.isSafeInteger(c.size) || checkpointText(c) !== text) throw untrusted("expected the canonical form of a checkpoint");
  return c;
}

/**
 * Opens a checkpoint with its signatures without trust in the host, and throws if it does
 * not verify: the host that the text names must have signed it, and no cosignature of a
 * vacant or a known witness may be wrong. Other cosignatures are ignored.
 * @param {string} note @param {KnownWitness[]} [known] @returns {Promise<Checkpoint & {text: string, cosignatures: Cosignature[]}>}
 */
export async function openCheckpoint(note, known = []) {
  if (!note.isWellFormed() || utf8(note).length > MAX_NOTE) throw untrusted(`expected a note of at most ${MAX_NOTE} bytes of UTF-8`);
  if (!/^[\n \p{L}\p{M}\p{N}\p{P}\p{S}]*$/u.test(note)) throw untrusted("expected a note of printable characters");
  const end = note.indexOf("\n\n");
  if (end < 0 || end !== note.lastIndexOf("\n\n")) throw untrusted("expected a signed note: a text, a blank line, signatures");
  const text = note.slice(0, end + 1);
  const block = note.slice(end + 2);
  const c = parseCheckpoint(text);
  if (!block.endsWith("\n")) throw untrusted("expected a note that ends with a line of a signature");
  const lines = block.slice(0, -1).split("\n");
  if (lines.length > 100) throw untrusted("expected at most 100 signatures");
  const seen = new Set();
  /** @type {Cosignature[]} */
  const cosignatures = [];
  let hosted = false;
  // Every line is parsed before a signature is verified: a note is well formed or is none.
  for (const { name, key, signature } of lines.map(parseLine)) {
    const role = await roleOf(name, key, c.host, known);
    if (!role || seen.has(`${name}+${key}`)) continue;
    seen.add(`${name}+${key}`);
    const ok = role.timed
      ? signature.length === 72 && (await verify(role.id, concat(utf8(`cosignature/v1\ntime ${timeOf(signature)}\n${text}`)), toHex(signature.slice(8))))
      : await verify(role.id, utf8(text), toHex(signature));
    if (!ok) throw untrusted(`the checkpoint does not verify: invalid signature for key ${name}+${key}`);
    if (role.timed) cosignatures.push({ name, witness: role.witness, time: Number(timeOf(signature)) });
    else hosted = true;
  }
  if (!hosted) throw untrusted(`the checkpoint is not signed by the host that it names, ${c.host}`);
  return { ...c, text, cosignatures };
}

/** @param {string} line @returns {{name: string, key: string, signature: Bytes}} */
function parseLine(line) {
  const m = /^— ([^\s\x85+]+) ([A-Za-z0-9+/=]+)$/u.exec(line);
  if (!m) throw untrusted("expected a line of a signature: — name base64");
  let raw;
  try {
    raw = fromBase64(m[2]);
  } catch {
    throw untrusted("expected a signature in base64");
  }
  if (raw.length < 5) throw untrusted("expected a signature behind the hash of its key");
  return { name: m[1], key: toHex(raw.slice(0, 4)), signature: raw.slice(4) };
}

/** @param {Bytes} signature @returns {bigint} */
const timeOf = (signature) => new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);

/**
 * Finds the key that a line of a signature names: the host's, a vacant's, or a known one.
 * @param {string} name @param {string} key @param {string} host @param {KnownWitness[]} known
 * @returns {Promise<{id: string, timed: boolean, witness: string} | null>}
 */
async function roleOf(name, key, host, known) {
  if (name === originPrefix + host && key === (await keyHash(name, keyEd25519, host))) return { id: host, timed: false, witness: "" };
  const witness = name.startsWith(witnessPrefix) ? name.slice(witnessPrefix.length) : "";
  if (/^[0-9a-f]{64}$/.test(witness) && key === (await keyHash(name, keyCosignature, witness))) return { id: witness, timed: true, witness };
  for (const k of known) {
    if (k.name === name && key === (await keyHash(name, keyCosignature, k.id))) return { id: k.id, timed: true, witness: "" };
  }
  return null;
}

/** @param {string} name @param {number} kind @param {string} id @returns {Promise<string>} the first four bytes of the key's hash */
async function keyHash(name, kind, id) {
  return toHex(await sha256(concat(utf8(name), new Uint8Array([0x0a, kind]), parseHex(id)))).slice(0, 8);
}

// ---- Epochs --------------------------------------------------------------------------

/** @param {string[]} events hashes @returns {string} the root of an epoch, padded to a power of two with the last leaf */
export function epochRoot(events) {
  let nodes = events.map((e) => blake2b(concat(new Uint8Array([0]), parseHex(e))));
  if (nodes.length === 0) return toHex(blake2b(new Uint8Array([0])));
  while (nodes.length & (nodes.length - 1)) nodes.push(nodes[nodes.length - 1]);
  while (nodes.length > 1) {
    const above = [];
    for (let i = 0; i < nodes.length; i += 2) above.push(blake2b(concat(new Uint8Array([1]), nodes[i], nodes[i + 1])));
    nodes = above;
  }
  return toHex(nodes[0]);
}

/** @param {string} root @returns {Bytes} the bytes that a host signs of an epoch */
export const epochBytes = (root) => concat(utf8("vacant:registry:epoch:"), parseHex(root));
