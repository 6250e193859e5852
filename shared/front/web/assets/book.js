// @ts-check
/**
 * What this browser keeps of its calls, in IndexedDB: keys, the state of each pair of key and
 * vacant, and the settled calls. Nothing of it is sent to anybody.
 *
 * The invariant: one durable transaction changes a pair and adds the calls that it settled.
 * @module
 */

import { done, opened } from "./dom.js";
import { ZERO_HASH } from "./vacant.js";

/** @typedef {import("./vacant.js").Envelope} Envelope */
/** @typedef {{seq: number, hash: string}} Point the last envelope of a chain */
/** @typedef {{id: string, key: CryptoKey, exportable: boolean, made: number}} Key made in Unix milliseconds */
/**
 * The calls of one key to one vacant.
 * @typedef {{pair: string, self: string, target: string, epoch: number, request: Point, response: Point,
 * sent: Envelope[], old: Envelope[], live: Envelope[], reset: Envelope | null, job: {idem: string, text: string, most?: number, context?: string} | null, signed: string, ahead: number, context?: string}} State
 * request and response are the last settled call and the last verified answer. sent has every
 * envelope signed for the next number; old has overtaken ones, which are asked for and never
 * sent again; live has those that the host does not know and may still accept. job is the call
 * in hand, for which the person pays at most so many micro-dollars. signed is the largest signed
 * time, and ahead the milliseconds that the host's clock is ahead. context is the id of the
 * conversation; if it is absent, the next call begins one. If a job has no context, null is signed.
 */
/** @typedef {{signature: boolean, binding: boolean, position: boolean | null}} Checks the position is null if others moved the chain */
/**
 * A settled call, or a reset.
 * @typedef {{id?: number, pair: string, self: string, target: string, at: number, epoch: number, fate: "answered" | "text_gone" | "unanswered" | "reset",
 * request: Envelope, requestHash: string, reply: Envelope | null, replySeq: number, replyHash: string, checks: Checks | null, cut: string, detail: string, code: string, receipt: string}} Call
 */

/** @param {string} self @param {string} target @returns {string} */
export const pairOf = (self, target) => self + ">" + target;

export class Book {
  /** @param {IDBDatabase} db */
  constructor(db) {
    this.db = db;
  }

  /** Fails if the browser lets the page store nothing. @returns {Promise<Book>} */
  static async open() {
    const request = indexedDB.open("vacancy", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("keys", { keyPath: "id" });
      request.result.createObjectStore("pairs", { keyPath: "pair" });
      request.result.createObjectStore("calls", { keyPath: "id", autoIncrement: true }).createIndex("pair", "pair");
    };
    const db = await opened(request);
    db.onversionchange = () => db.close();
    return new Book(db);
  }

  /** @param {string} name @returns {IDBObjectStore} */
  read(name) {
    return this.db.transaction(name).objectStore(name);
  }

  /**
   * Runs one transaction. It is on disk when the promise resolves; otherwise nothing changed.
   * @param {string[]} names @param {(tx: IDBTransaction) => void} change @returns {Promise<void>}
   */
  write(names, change) {
    return new Promise((resolve, reject) => {
      const tx = this.db.transaction(names, "readwrite", { durability: "strict" });
      tx.oncomplete = () => resolve();
      tx.onabort = () => reject(tx.error ?? new DOMException("the transaction ended", "AbortError"));
      try {
        change(tx);
      } catch (err) {
        tx.abort();
        reject(err);
      }
    });
  }

  /** @returns {Promise<Key[]>} the newest first */
  async keys() {
    /** @type {Key[]} */
    const keys = await done(this.read("keys").getAll());
    return keys.sort((a, b) => b.made - a.made);
  }

  /** @param {Key} key */
  addKey(key) {
    return this.write(["keys"], (tx) => tx.objectStore("keys").add(key));
  }

  /** Deletes a key and the state of its chains. Its settled calls stay. @param {string} id */
  deleteKey(id) {
    return this.write(["keys", "pairs"], (tx) => {
      tx.objectStore("keys").delete(id);
      tx.objectStore("pairs").delete(IDBKeyRange.bound(id + ">", id + "?", false, true)); // "?" follows ">"
    });
  }

  /** @param {string} self @param {string} target @returns {Promise<State>} */
  async state(self, target) {
    const pair = pairOf(self, target);
    const start = () => ({ seq: 0, hash: ZERO_HASH });
    return (
      (await done(this.read("pairs").get(pair))) ?? {
        pair, self, target, epoch: 0, request: start(), response: start(), sent: [], old: [], live: [], reset: null, job: null, signed: "", ahead: 0,
      }
    );
  }

  /** @returns {Promise<State[]>} the state of every pair */
  states() {
    return done(this.read("pairs").getAll());
  }

  /** Replaces the state of a pair, and adds calls. @param {State} state @param {Call[]} calls */
  save(state, calls) {
    return this.write(["keys", "pairs", "calls"], (tx) => {
      // A key that another tab deleted has no chains any more.
      const key = tx.objectStore("keys").getKey(state.self);
      key.onsuccess = () => {
        if (key.result === undefined) return tx.abort();
        tx.objectStore("pairs").put(state);
        for (const call of calls) tx.objectStore("calls").add(call);
      };
    });
  }

  /** @param {string} [pair] @returns {Promise<Call[]>} the settled calls of a pair, or of all, oldest first */
  calls(pair) {
    return done(pair === undefined ? this.read("calls").getAll() : this.read("calls").index("pair").getAll(pair));
  }
}
