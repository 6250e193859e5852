// @ts-check
/**
 * Verifies a host's transparency log in the browser: the checkpoint with its signatures, that
 * the log continues the last checkpoint that this browser saw, and that an event is in it.
 * The host's key is pinned at the first visit.
 * @module
 */

import { eventHash, shortID, VacantError, verifyEvent } from "./vacant.js";
import { openCheckpoint, verifyConsistency, verifyInclusion } from "./merkle.js";
import { done, element, opened, visible } from "./dom.js";

/** @typedef {Awaited<ReturnType<typeof openCheckpoint>>} Opened */
/** @typedef {{key: string, host: string, size: number, root: string, note: string}} Seen the last checkpoint of an origin, with its signed note */

// ---- The last checkpoint that this browser saw -----------------------------------------

const storeName = "checkpoints";

/** @returns {Promise<IDBDatabase>} */
function openStore() {
  const request = indexedDB.open("vacancy-log", 1);
  request.onupgradeneeded = () => request.result.createObjectStore(storeName, { keyPath: "key" });
  return opened(request);
}

/** @param {IDBDatabase} db @returns {Promise<Seen | undefined>} */
const lastSeen = (db) => done(db.transaction(storeName).objectStore(storeName).get(location.origin));

/**
 * Stores a checkpoint, unless another tab stored one since before was read.
 * @param {IDBDatabase} db @param {Seen | undefined} before @param {Seen} next
 */
async function remember(db, before, next) {
  const store = db.transaction(storeName, "readwrite", { durability: "strict" }).objectStore(storeName);
  const current = await done(store.get(location.origin));
  if (current?.note === before?.note) await done(store.put(next));
}

/** @returns {Promise<string>} the id of the host whose log this browser saw at this address; "" if it saw none */
export const knownHost = async () => (await lastSeen(await openStore()))?.host ?? "";

/** @param {IDBDatabase} db */
const forget = (db) => done(db.transaction(storeName, "readwrite").objectStore(storeName).delete(location.origin));

// ---- Verification ----------------------------------------------------------------------

/** @param {string} path @returns {Promise<string>} the text of a host's answer */
async function get(path) {
  const answer = await fetch(path, { cache: "no-store", credentials: "omit" });
  const text = await answer.text();
  if (!answer.ok) {
    let detail = text.slice(0, 200);
    try {
      detail = String(JSON.parse(text).detail);
    } catch {
      // An error of a proxy need not be JSON.
    }
    throw new Refused(answer.status, `the host answered ${answer.status}: ${detail}`);
  }
  return text;
}

class Refused extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The host contradicts what it signed before, or what it signed is not right. */
class Alarm extends Error {}

/**
 * Compares a checkpoint with the last one that this browser saw. It throws an Alarm unless one
 * log begins with the other.
 * @param {Opened} now @param {Seen} before
 * @returns {Promise<boolean>} whether the checkpoint is at least as new
 */
async function compare(now, before) {
  if (now.host !== before.host) throw new Alarm(`The log is signed by the key of ${now.host}. At your first visit it was the key of ${before.host}.`);
  const [from, to] = now.size < before.size ? [now, before] : [before, now];
  if (from.size === to.size) {
    if (from.root !== to.root) throw new Alarm(`The host signed two different logs of ${now.size} events: it shows one log to some and another log to others.`);
    return true;
  }
  let proof = [];
  try {
    if (from.size > 0) proof = JSON.parse(await get(`/v1/proof/consistency?from=${from.size}&to=${to.size}`)).proof;
    await verifyConsistency(from, to, proof);
  } catch (err) {
    if (err instanceof Refused && (err.status === 429 || err.status >= 500)) throw err;
    if (!(err instanceof VacantError || err instanceof Refused || err instanceof SyntaxError)) throw err;
    if (from === now) throw new Alarm(`The log has ${now.size} events now. At your last visit it had ${before.size}: events are missing. (${err.message})`);
    throw new Alarm(`The log of ${now.size} events does not continue the log of ${before.size} events that you saw before: events were changed. (${err.message})`);
  }
  return from !== now;
}

/**
 * Verifies an event: its signature, its hash, and that it is in the log.
 * @param {Opened} log @param {number} seq
 * @returns {Promise<string>} the actor's id
 */
async function verifyEventOf(log, seq) {
  const event = JSON.parse(await get(`/v1/event/${seq}`));
  const proof = JSON.parse(await get(`/v1/proof/inclusion?seq=${seq}&size=${log.size}`));
  const signed = {
    type: String(event.event_type), actor: String(event.actor_vacant_id), payload: String(event.payload_json), key: String(event.idempotency_key ?? ""),
    time: Number(event.ts), actorSeq: Number(event.actor_seq), signature: String(event.signature_hex),
  };
  // The hash of what this browser read, not the hash that the host names.
  await verifyInclusion(log, seq, eventHash(signed, String(event.prev_event_hash_hex)), proof.proof);
  if (!(await verifyEvent(signed))) throw new VacantError("untrusted", `event ${seq} is not signed by its actor`);
  return signed.actor;
}

// ---- The page --------------------------------------------------------------------------

/** @param {string} state verified, failed or not checked @param {string} what @param {string} why @returns {HTMLElement} */
function line(state, what, why) {
  const kind = state === "verified" ? "ok" : state === "failed" ? "bad" : "muted";
  return element("li", { class: kind, "data-state": state }, element("strong", {}, `${what}: ${state}`), why ? ` — ${visible(why)}` : "");
}

/** @param {string} name @param {string} text @returns {HTMLAnchorElement} a link that saves a text as a file */
function saveLink(name, text) {
  return element("a", { download: name, href: URL.createObjectURL(new Blob([text], { type: "text/plain" })) }, `Save ${name}`);
}

/**
 * Shows an alert with both notes: each is signed, so together they prove what the host did.
 * @param {HTMLElement} place @param {string} message @param {string} note @param {Seen | undefined} before @param {IDBDatabase | undefined} db
 */
function showAlarm(place, message, note, before, db) {
  const box = element("div", { role: "alert", class: "card bad" }, element("h2", {}, "This log cannot be trusted"), element("p", {}, visible(message)));
  const links = element("p", {}, saveLink("checkpoint-now.txt", note));
  if (before) links.append(" ", saveLink("checkpoint-before.txt", before.note));
  box.append(element("p", {}, "Save what the host signed and show it to others. This browser keeps the checkpoint that it saw before."), links);
  if (before && db) {
    const button = element("button", { type: "button", id: "forget" }, "Forget the earlier checkpoint and the host's key");
    button.onclick = async () => {
      await forget(db);
      location.reload();
    };
    box.append(element("p", {}, button));
  }
  place.prepend(box);
}

/** @param {unknown} err @returns {string} */
const reason = (err) => (err instanceof Error ? err.message : String(err));

/** @param {unknown} err @returns {string} whether a check failed, or could not be made */
const stateOf = (err) => (err instanceof VacantError || err instanceof SyntaxError ? "failed" : "not checked");

/** @param {HTMLElement} place @returns {Promise<Opened | undefined>} the checkpoint, if nothing speaks against it */
async function checkLog(place) {
  const list = element("ul", { "aria-label": "Verified in this browser", role: "list" });
  place.append(list);
  let note;
  try {
    note = await get(place.dataset.checkpoint || "/v1/checkpoint");
  } catch (err) {
    list.append(line("not checked", "Checkpoint", reason(err)));
    return undefined;
  }
  /** @type {IDBDatabase | undefined} */
  let db;
  /** @type {Seen | undefined} */
  let before;
  let unstored = "";
  try {
    db = await openStore();
    before = await lastSeen(db);
  } catch (err) {
    unstored = `this browser stores nothing for this site (${reason(err)})`;
  }
  let now;
  try {
    now = await openCheckpoint(note);
  } catch (err) {
    list.append(line(stateOf(err), "Checkpoint", reason(err)));
    if (err instanceof VacantError) showAlarm(place, `${err.message}.`, note, before, db);
    return undefined;
  }
  list.append(line("verified", "Checkpoint", `${now.size} events, signed by ${now.host}`));
  for (const c of now.cosignatures) {
    const at = new Date(1000 * c.time);
    list.append(line("verified", "Cosignature", `by ${c.witness ? shortID(c.witness) : c.name}, at ${Number.isNaN(at.getTime()) ? `second ${c.time}` : `${at.toISOString().slice(0, 19)}Z`}`));
  }
  if (now.cosignatures.length === 0) list.append(line("not checked", "Cosignature", "no witness has cosigned this checkpoint"));
  try {
    const newer = before ? await compare(now, before) : true;
    if (db && newer) await remember(db, before, { key: location.origin, host: now.host, size: now.size, root: now.root, note });
    list.append(before ? line("verified", "History", newer ? `continues the log of ${before.size} events that this browser saw` : `an older part of the log of ${before.size} events that this browser saw`)
      : line("not checked", "History", unstored || "first visit: from now on this browser remembers the checkpoint and the host's key"));
  } catch (err) {
    list.append(line(err instanceof Alarm ? "failed" : "not checked", "History", reason(err)));
    if (!(err instanceof Alarm)) return now;
    showAlarm(place, err.message, note, before, db);
    return undefined;
  }
  return now;
}

/** @param {HTMLElement} place @param {Opened | undefined} log @param {number} seq */
async function checkEvent(place, log, seq) {
  const list = element("ul", { "aria-label": "Verified in this browser", role: "list" });
  place.replaceChildren(list);
  if (!log) {
    list.append(line("not checked", `Event ${seq}`, "the checkpoint is not verified"));
    return;
  }
  try {
    const actor = await verifyEventOf(log, seq);
    list.append(line("verified", `Event ${seq}`, `signed by ${shortID(actor)} and in the log of ${log.size} events`));
  } catch (err) {
    list.append(line(stateOf(err), `Event ${seq}`, reason(err)));
  }
}

/** @param {HTMLElement} place @param {Opened | undefined} log */
function offerEvents(place, log) {
  const input = element("input", { id: "seq", type: "number", min: "1", step: "1", required: "", inputmode: "numeric" });
  if (log) input.max = String(log.size);
  const form = element("form", { id: "prove" }, element("label", { for: "seq" }, "Event number "), input, " ", element("button", {}, "Verify this event"));
  const verdict = element("div", { id: "proved", role: "status" });
  form.onsubmit = (event) => {
    event.preventDefault();
    checkEvent(verdict, log, Number(input.value));
  };
  place.append(form, verdict);
}

const log = document.getElementById("log");
const event = document.getElementById("event");
const place = log ?? event;
if (place) {
  place.setAttribute("aria-busy", "true");
  const opened = await checkLog(place);
  if (log) offerEvents(log, opened);
  if (event) {
    const verdict = element("div", { role: "status" });
    event.append(verdict);
    await checkEvent(verdict, opened, Number(event.dataset.seq));
  }
  place.setAttribute("aria-busy", "false");
}
