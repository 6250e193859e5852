// @ts-check
/**
 * Calls a vacant of this host by signed envelopes (PROTOCOL §16): one call in flight for a key
 * and a vacant across all tabs, signed bytes on disk before they are sent, the same bytes
 * again after a lost answer, and an answer that counts only if the vacant signed it for this
 * request at the next position of the chain.
 * @module
 */

import { pairOf } from "./book.js";
import {
  ANSWER_LIMITS, canonical, checkResponse, envelopeHash, formatTime, isReset, JSONNumber, LIMITS, makeEnvelope, messageJSON, microsOf, parseHash,
  parseJSON, parseMessage, plain, requestBody, RESET_TEXT, signEnvelope, utf8, ZERO_HASH,
} from "./vacant.js";

/** @typedef {import("./vacant.js").Envelope} Envelope */
/** @typedef {import("./vacant.js").Signer} Signer */
/** @typedef {import("./vacant.js").Value} Value */
/** @typedef {import("./book.js").Call} Call */
/** @typedef {{id: string, send: string}} Target send is the URL of a call, on the page's own origin */
/** @typedef {{signal?: AbortSignal, idem?: string, maxPrice?: number, tell?: (state: string, left?: number) => void, stream?: Stream}} Options
 * idem names a message. A message with the idem of an earlier message is the same message. maxPrice is in micro-dollars. tell hears what the call waits for, and the milliseconds that are left to the vacant */
/** @typedef {{answer?: string, refused?: string, detail?: string}} Streamed the body of a signed answer with what came at its end, or the code of a refusal, or neither. detail says why there is no answer */
/** @typedef {(e: Envelope, most?: number, signal?: AbortSignal) => Promise<Streamed>} Stream sends a call as a stream */
/** @typedef {"again" | "done" | "other" | "sign" | "moved"} Verdict */
/** @typedef {{status?: number, price?: any, pay?: any[], due?: string, retry?: number, field?: string, reset?: boolean}} More reset says that a reset may help */

/** A call that did not end with an answer. */
export class CallError extends Error {
  /**
   * @param {string} code of the host, or stopped, pending, storage, untrusted, moved, clock
   * @param {string} message @param {More} [more]
   */
  constructor(code, message, more = {}) {
    super(message);
    this.name = "CallError";
    this.code = code;
    this.more = more;
  }
}

const tries = 6;
const maxTurns = 32;
const maxListed = 64;
const maxSeq = Number.MAX_SAFE_INTEGER;
const patience = 45_000; // more than a host's deadline and grace, in milliseconds
const grace = 10_000; // milliseconds between the end of a vacant's time and the host's decision about the call
const maxQueueTime = 15 * 60_000; // milliseconds that a streamed call may wait for its turn
const limitDelay = 2000; // time until the page asks for the limit, in milliseconds
const longest = 16 * 60_000; // the longest that a host lets a vacant take
const maxSkew = 3600_000; // a larger error of a clock is for a person to correct
const resetSpan = 300_000;

/** @param {number} n @returns {number} the n-th pause between tries, in milliseconds */
const backoff = (n) => Math.min(200 * 2 ** n, 5000);

/** @param {string} time @returns {number} Unix milliseconds */
const millis = (time) => Number(microsOf(time) / 1000n);

/** @param {Envelope[]} list @param {string} hash @returns {Envelope[]} */
const without = (list, hash) => list.filter((e) => envelopeHash(e) !== hash);

/**
 * Awaits a promise, or fails once the signal is aborted. The work behind the promise goes on, so it must ask the signal
 * before each of its further steps.
 * @template T @param {AbortSignal | undefined} signal @param {Promise<T>} promise @returns {Promise<T>}
 */
export const stoppable = (signal, promise) =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
  });

/** Returns the error of an operation that the person stopped. @param {unknown} err that the operation failed with @param {boolean} [sent] @returns {CallError} */
export const stopped = (err, sent = false) =>
  err instanceof CallError ? err : new CallError("stopped", `You stopped waiting. ${sent ? "The signed message is kept, and may have been sent." : "This attempt sent nothing."}`);

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
const sleep = (ms, signal) => stoppable(signal, new Promise((resolve) => setTimeout(resolve, ms)));

/** A host's answer, parsed without trust: a member of another type counts as absent. */
class Answer {
  /** @param {number} status @param {string} text @param {Headers} [headers] */
  constructor(status, text, headers) {
    this.status = status;
    this.retry = Math.min(Number(headers?.get("Retry-After")) || 0, 60);
    /** @type {Map<string, Value>} */
    this.members = new Map();
    this.object = false;
    try {
      const value = parseJSON(text, ANSWER_LIMITS);
      if (value instanceof Map) {
        this.members = value;
        this.object = true;
      }
    } catch {
      // A page of a proxy, for example. Its text is shown.
    }
    const result = this.members.get("result");
    /** @param {string} key @returns {string} */
    const inResult = (key) => (result instanceof Map && typeof result.get(key) === "string" ? String(result.get(key)) : "");
    this.cut = this.word("cut") || inResult("cut");
    const receipt = headers?.get("Vacancy-Receipt") ?? inResult("receipt");
    this.receipt = receipt.startsWith("/v1/account/receipts/") ? receipt : "";
    this.code = this.word("code");
    this.state = this.word("state");
    this.detail = this.word("detail") || this.word("error") || (this.object ? "no reason given" : text.slice(0, 300) || "no reason given");
    this.expected = this.number("expected_seq");
    this.tip = this.hash("chain_tip");
    this.floor = this.time("floor");
    this.now = this.time("now");
    this.due = this.time("due");
    this.restored = this.time("restored");
  }

  /** @param {string} key @returns {string} */
  word(key) {
    const value = this.members.get(key);
    return typeof value === "string" ? value : "";
  }

  /** @param {string} key @returns {number} */
  number(key) {
    const value = this.members.get(key);
    return value instanceof JSONNumber && Number.isSafeInteger(value.value) ? value.value : 0;
  }

  /** @param {string} key @returns {string} */
  hash(key) {
    try {
      return parseHash(this.word(key));
    } catch {
      return "";
    }
  }

  /** @param {string} key @returns {string} */
  time(key) {
    try {
      return formatTime(microsOf(this.word(key)));
    } catch {
      return "";
    }
  }

  /** Reports whether the chain still ends with an envelope. @param {Envelope} e @param {string} hash */
  current(e, hash) {
    return (!this.tip || this.tip === hash) && (!this.expected || this.expected === e.seq + 1);
  }

  get conflict() {
    return this.status === 409 && this.object;
  }

  get belowFloor() {
    return this.conflict && this.code === "floor" && this.floor !== "";
  }

  /** Reports that the same bytes must be sent again, because the host failed without telling their fate. */
  get inconclusive() {
    return (
      this.state === "" &&
      ((this.status === 409 && !this.object) || (this.status >= 500 && this.status !== 501) || this.status === 408 || this.status === 425)
    );
  }

  /** @param {string} what @returns {CallError} the refusal */
  refusal(what) {
    const { status, retry } = this;
    const pay = plain(this.members.get("pay") ?? null);
    return new CallError(this.code || `http_${status}`, `The host refused the ${what} (${status}): ${this.detail}`, {
      status, retry, price: plain(this.members.get("price") ?? null), pay: Array.isArray(pay) ? pay : [],
    });
  }
}

/** Calls a vacant with one key. */
export class Caller {
  /** @param {import("./book.js").Book} book @param {Signer} signer @param {Target} target */
  constructor(book, signer, target) {
    this.book = book;
    this.signer = signer;
    this.target = target;
    this.pair = pairOf(signer.id, target.id);
  }

  /**
   * Sends a message. Sent again with the same idem, whatever came of it meanwhile and in whichever tab, it runs once.
   * @param {string} text @param {Options} [options] @returns {Promise<Call>}
   */
  async call(text, options) {
    if (text.trim() === "") throw new CallError("usage", "The message is empty.");
    return this.locked((run) => run.call(text), options);
  }

  /** Finishes the call in hand, within the price that it was sent with. @param {Options} [options] @returns {Promise<Call | null>} null if none is in hand */
  resume(options) {
    return this.locked((run) => run.resume(), options);
  }

  /** Ends a message without an outcome if it is in hand. The next call asks for its fate. @param {string} idem @param {Options} [options] */
  giveUp(idem, options) {
    return this.locked(async (run) => {
      if (run.state.job?.idem !== idem) return;
      run.state.job = null;
      await run.save();
    }, options);
  }

  /** Begins another conversation: the vacant does not remember the calls before it. @param {Options} [options] */
  renew(options) {
    return this.locked(async (run) => {
      run.state.context = crypto.randomUUID();
      await run.save();
    }, options);
  }

  /** Starts both chains again. @param {Options} [options] */
  reset(options) {
    return this.locked((run) => run.reset(), options);
  }

  /**
   * Runs an operation while no other tab has one with this key and vacant. Once the signal is aborted it fails, whatever the operation waits for.
   * @template T @param {(run: Run) => Promise<T>} f @param {Options} [options] @returns {Promise<T>}
   */
  async locked(f, options = {}) {
    const name = `vacancy call ${this.pair}`;
    const { signal } = options;
    /** @type {Run | null} */
    let run = null;
    const work = async () => {
      const state = await stored(this.book.state(this.signer.id, this.target.id));
      signal?.throwIfAborted();
      run = new Run(this, state, options);
      return f(run);
    };
    const wait = async () => {
      const free = await navigator.locks.request(name, { ifAvailable: true }, async (lock) => (lock ? { value: await work() } : null));
      if (free) return free.value;
      options.tell?.("locked");
      return /** @type {T} */ (await navigator.locks.request(name, { signal }, work));
    };
    try {
      return await stoppable(signal, wait());
    } catch (err) {
      throw signal?.aborted ? stopped(err, /** @type {Run | null} */ (run)?.sent) : err;
    }
  }
}

/** @template T @param {Promise<T>} result of the book @returns {Promise<T>} */
async function stored(result) {
  try {
    return await result;
  } catch (err) {
    const full = err instanceof DOMException && err.name === "QuotaExceededError";
    throw new CallError("storage", full ? "The storage that this browser gives to this site is full." : `This browser could not store the state of your calls: ${err instanceof Error ? err.message : err}`);
  }
}

/** One operation on a locked pair. */
class Run {
  /** @param {Caller} caller @param {import("./book.js").State} state @param {Options} options */
  constructor(caller, state, options) {
    this.caller = caller;
    this.state = state;
    this.options = options;
    /** @type {Call[]} */
    this.settled = [];
    /** @type {Call | null} */
    this.outcome = null;
    this.asked = new Set();
    this.corrected = false;
    this.floorRetries = 0;
    this.sent = false; // in this run
    this.deaf = false; // the host did not answer an ask
  }

  /** Stores the state with the calls that were settled since. */
  async save() {
    await stored(this.caller.book.save(this.state, this.settled));
    this.settled = [];
  }

  /** The host's time, as far as it is known. @returns {number} Unix milliseconds */
  now() {
    return Date.now() + this.state.ahead;
  }

  /** @param {Answer} a @returns {number} the milliseconds until the vacant's time ends, or 0 if the answer has no due time */
  millisLeft(a) {
    return a.due ? millis(a.due) - grace - this.now() : 0;
  }

  /** @param {string} [least] @returns {string} a time to sign, later than all signed before */
  stamp(least = "") {
    let t = BigInt(Math.trunc(this.now())) * 1000n;
    for (const before of [this.state.signed, least]) {
      if (before && t <= microsOf(before)) t = microsOf(before) + 1n;
    }
    return formatTime(t);
  }

  /** @param {string} time */
  noteSigned(time) {
    if (time && (!this.state.signed || microsOf(time) > microsOf(this.state.signed))) this.state.signed = time;
  }

  /** @param {string} hash @returns {Envelope | undefined} the envelope for the next number with a hash */
  next(hash) {
    const { sent, live, request } = this.state;
    return [...sent, ...live].find((e) => e.seq === request.seq + 1 && envelopeHash(e) === hash);
  }

  /** @param {Envelope} e @returns {boolean} whether it belongs to the call in hand */
  ours(e) {
    return this.state.job !== null && e.idem === this.state.job.idem;
  }

  /** @param {string} text @returns {Promise<Call>} */
  async call(text) {
    const { state } = this;
    const { idem = crypto.randomUUID(), maxPrice } = this.options;
    const settled = (await stored(this.caller.book.calls(this.caller.pair))).find((c) => c.request.idem === idem);
    if (settled) return settled;
    const known = state.job?.idem === idem || [...state.sent, ...state.live, ...state.old].some((e) => e.idem === idem);
    state.context ??= crypto.randomUUID();
    state.job = { idem, text, most: maxPrice, context: state.context };
    return this.finish(known);
  }

  /** @returns {Promise<Call | null>} */
  async resume() {
    return this.state.job && this.finish(true);
  }

  /** Brings the call in hand to its outcome. @param {boolean} before whether the host may have seen it @returns {Promise<Call>} */
  async finish(before) {
    const { state } = this;
    for (let turn = 0; turn < maxTurns; turn++) {
      if (this.outcome) return this.outcome;
      this.options.signal?.throwIfAborted();
      const old = state.old.find((e) => !this.asked.has(envelopeHash(e)) && (!this.deaf || this.ours(e)));
      const mine = state.sent.findLast((e) => this.ours(e));
      if (state.reset) {
        await this.finishReset();
      } else if (old) {
        await this.settleListed(old);
      } else if (mine) {
        await this.send(mine, before);
        before = false;
      } else if (state.sent.length + state.live.length >= maxListed) {
        throw new CallError("moved", `${maxListed} messages have no known outcome. A reset starts the chain again.`);
      } else {
        await this.sign();
        before = false;
      }
    }
    throw this.unresolved();
  }

  /** Signs the call in hand for the next number, and stores the envelope. */
  async sign() {
    const { state, caller } = this;
    if (state.request.seq >= maxSeq) throw new CallError("moved", "The chain is at its end. A reset starts it again.");
    const e = await signEnvelope(
      makeEnvelope({
        from: state.self, to: state.target, seq: state.request.seq + 1, prev: state.request.hash, ts: this.stamp(), text: state.job?.text, idem: state.job?.idem,
        contextId: state.job?.context,
      }),
      caller.signer,
    );
    if (isReset(e)) throw new CallError("usage", `${RESET_TEXT} is the text of a reset, not of a message.`);
    const size = utf8(requestBody(e)).length;
    if (size > LIMITS.bytes) throw new CallError("too_large", `The message is too long: signed it has ${size} bytes, and at most ${LIMITS.bytes} are allowed.`);
    state.sent.push(e);
    this.noteSigned(e.ts);
    await this.save();
  }

  /**
   * Posts an envelope. A thrown error says that no answer came.
   * @param {string} suffix of the route @param {Envelope} e @returns {Promise<Answer>}
   */
  async post(suffix, e) {
    const { signal } = this.options;
    const url = new URL(this.caller.target.send.replace(/\/a2a\/message\/send$/, suffix), location.href);
    const most = this.state.job?.most;
    if (most !== undefined && suffix === sendPath) url.searchParams.set("max_price", String(most));
    this.sent = true;
    const response = await fetch(url, {
      method: "POST", body: requestBody(e), headers: { "Content-Type": "application/json" }, credentials: "omit", redirect: "error", cache: "no-store",
      signal: AbortSignal.any([AbortSignal.timeout(exchange), ...(signal ? [signal] : [])]),
    });
    return new Answer(response.status, await response.text(), response.headers);
  }

  /** @param {Envelope} e @param {boolean} before whether the host may have seen it */
  async send(e, before) {
    const hash = envelopeHash(e);
    const { tell, stream, signal } = this.options;
    let due = Date.now() + patience;
    for (let n = 0, waits = 0; ; ) {
      /** @type {Answer | null} */
      let a = null;
      tell?.("sent");
      try {
        // A stream that breaks, or is refused, leaves the fate to the same bytes on the signed path. A host that refuses
        // by its floor has accepted nothing.
        if (stream && !before && n + waits === 0) {
          this.sent = true;
          // A stream does not say how long its vacant may take.
          let isOver = false;
          const askTimer = setTimeout(() => this.post(askPath, e).then((q) => isOver || tell?.("due", this.millisLeft(q) - maxQueueTime)).catch(() => {}), limitDelay);
          const { answer, refused } = await stream(e, this.state.job?.most, signal).catch(() => ({ answer: undefined, refused: undefined }));
          clearTimeout(askTimer);
          isOver = true;
          if (answer) a = new Answer(200, answer);
          else before = refused !== "floor";
        }
        if (signal?.aborted) throw signal.reason;
        a ??= await this.post(sendPath, e);
      } catch (err) {
        if (signal?.aborted) throw err;
      }
      const verdict = a ? await this.judge(e, hash, a, before) : "again";
      if (verdict === "other") await this.settleOther(e, /** @type {Answer} */ (a));
      if (verdict === "moved") throw this.moved(/** @type {Answer} */ (a));
      if (verdict !== "again") return;
      before = true;
      if (a?.state === "pending") {
        if (a.due) due = Date.now() + Math.min(this.millisLeft(a) + 2 * grace, longest);
        if (Date.now() > due) throw this.unresolved(a.due);
        tell?.("pending", this.millisLeft(a));
        await sleep(Math.max(backoff(waits++), 1000 * a.retry), signal);
      } else {
        if (++n >= tries) throw this.unresolved("", a ?? undefined);
        tell?.("retry");
        await sleep(backoff(n - 1), signal);
      }
    }
  }

  /** Applies an answer to the state and stores it. @param {Envelope} e @param {string} hash @param {Answer} a @param {boolean} before @returns {Promise<Verdict>} */
  async judge(e, hash, a, before) {
    const { state } = this;
    if (a.status === 200 && a.state === "") {
      const result = a.members.get("result");
      return this.take(e, hash, result instanceof Map ? result.get("message") : null, a, this.next(hash) !== undefined);
    }
    if (a.state === "answered") {
      const current = a.current(e, hash) && this.next(hash) !== undefined;
      const reply = a.members.get("reply");
      if (reply instanceof Map) return this.take(e, hash, reply, a, current);
      const [seq, replyHash] = [a.number("reply_seq"), a.hash("reply_hash")];
      if (seq < 1 || !replyHash) throw new CallError("untrusted", "The host reports that the vacant answered, but returned no answer.");
      if (current && seq !== state.response.seq + 1) throw new CallError("untrusted", `The host reports answer number ${seq}, expected number ${state.response.seq + 1}.`);
      return this.settle(e, hash, current ? { seq, hash: replyHash } : undefined, { fate: "text_gone", replySeq: seq, replyHash, cut: a.cut });
    }
    if (a.state === "unanswered") {
      const current = a.current(e, hash) && this.next(hash) !== undefined;
      const known = a.status >= 500 && a.code !== "";
      return this.settle(e, hash, current ? null : undefined, {
        fate: "unanswered", detail: known ? a.detail : "The vacant's agent failed, or took too long.", code: known ? a.code : "",
      });
    }
    if (a.state === "pending" || a.inconclusive) return "again";
    if (a.belowFloor && millis(a.floor) > this.now() + maxSkew) {
      throw new CallError("clock", `The vacant has a message signed at ${a.floor} on record, more than an hour ahead of this computer's clock.`);
    }
    if (a.conflict) return this.conflict(e, a, before);
    if (a.now) {
      state.live.push(...state.sent.filter((s) => envelopeHash(s) === hash));
      state.sent = without(state.sent, hash);
      this.setClock(a.now);
      await this.save();
      return "sign";
    }
    // The envelope stays listed, because a copy of it may still arrive.
    if (this.ours(e)) state.job = null;
    await this.save();
    throw a.refusal("message");
  }

  /**
   * Takes an answer if it verifies.
   * @param {Envelope} e @param {string} hash @param {Value | undefined} message @param {Answer} a
   * @param {boolean} current whether the answer must follow the chain @returns {Promise<Verdict>}
   */
  async take(e, hash, message, a, current) {
    const { state } = this;
    let reply;
    try {
      reply = parseMessage(canonical(message ?? null));
    } catch (err) {
      throw new CallError("untrusted", `The answer is not a signed message: ${err instanceof Error ? err.message : err}`);
    }
    const checks = await checkResponse(reply, e, state.response);
    const wrong = [];
    if (!checks.signature) wrong.push("the vacant did not sign it");
    if (!checks.binding) wrong.push("it answers another request, or another caller");
    if (current && !checks.position) wrong.push(`it does not follow answer ${state.response.seq} of the chain`);
    if (wrong.length > 0) throw new CallError("untrusted", `The answer is refused: ${wrong.join("; ")}.`, { reset: checks.signature && checks.binding });
    const replyHash = envelopeHash(reply);
    return this.settle(e, hash, current ? { seq: reply.seq, hash: replyHash } : undefined, {
      fate: "answered", reply, replySeq: reply.seq, replyHash, checks: { ...checks, position: current || null }, cut: a.cut, receipt: a.receipt,
    });
  }

  /**
   * Settles a call and stores that. answer is its place in the response chain, null if it has
   * no answer, and undefined if others moved the chains since.
   * @param {Envelope} e @param {string} hash @param {import("./book.js").Point | null | undefined} answer @param {Partial<Call>} what @returns {Promise<Verdict>}
   */
  async settle(e, hash, answer, what) {
    const { state } = this;
    if (answer) state.response = answer;
    if (answer !== undefined) state.request = { seq: e.seq, hash };
    if (answer !== undefined || this.next(hash)) this.retire();
    state.old = without(state.old, hash);
    this.record(e, what);
    if (this.ours(e)) {
      this.outcome = this.settled[this.settled.length - 1];
      state.job = null;
    }
    await this.save();
    return "done";
  }

  /** @param {Envelope} e @param {Partial<Call>} what */
  record(e, what) {
    const { pair, self, target, epoch } = this.state;
    this.settled.push({
      pair, self, target, epoch, at: Date.now(), fate: "answered", request: e, requestHash: envelopeHash(e), reply: null, replySeq: 0, replyHash: "", checks: null,
      cut: "", detail: "", code: "", receipt: "", ...what,
    });
  }

  /** Moves the envelopes for the next number to those that are only asked for. */
  retire() {
    const { state } = this;
    state.old = [...state.old, ...state.sent, ...state.live];
    state.sent = [];
    state.live = [];
  }

  /** @param {Envelope} e @param {Answer} a @param {boolean} before @returns {Promise<Verdict>} */
  async conflict(e, a, before) {
    const { state } = this;
    if (a.tip && this.next(a.tip)) return "other";
    // After a reset the first call must be later than everything before. If the host may have
    // seen e before its vacant came back from a backup, e could run twice, so a person decides.
    const first = e.seq === 1 && state.request.seq === 0 && a.expected <= 1;
    const restored = !before && a.expected === e.seq && a.tip === e.prev;
    if (a.belowFloor && (first || restored)) {
      if (++this.floorRetries > tries) throw new CallError("clock", "The host keeps asking for a later time. Check the clock of this computer.");
      this.retire();
      this.noteSigned(a.floor);
      await this.save();
      return "sign";
    }
    return "moved";
  }

  /** Settles another envelope of the same number, which the host accepted. @param {Envelope} e @param {Answer} a */
  async settleOther(e, a) {
    const other = /** @type {Envelope} */ (this.next(a.tip));
    const answer = await this.ask(other, true);
    if (answer?.state === "answered" || answer?.state === "unanswered") await this.judge(other, a.tip, answer, true);
    else await sleep(backoff(0), this.options.signal);
  }

  /** @param {string} host the host's clock */
  setClock(host) {
    const skew = millis(host) - Date.now();
    if (this.corrected || Math.abs(skew) > maxSkew) {
      throw new CallError("clock", `The clocks of this computer and of the host differ by ${Math.round(Math.abs(skew) / 1000)} seconds. Set this computer's clock.`);
    }
    this.corrected = true;
    this.state.ahead = skew;
    if (this.state.signed && microsOf(this.state.signed) > microsOf(host)) this.state.signed = host;
  }

  /** Asks for the fate of an envelope. @param {Envelope} e @param {boolean} patient @returns {Promise<Answer | null>} */
  async ask(e, patient) {
    const { signal, tell } = this.options;
    const until = Date.now() + patience;
    for (let n = 0, waits = 0; ; ) {
      tell?.("ask");
      let a = null;
      try {
        a = await this.post(askPath, e);
      } catch (err) {
        if (signal?.aborted) throw err;
      }
      if (a && a.state !== "pending" && !a.inconclusive) return a;
      if (!patient) {
        this.deaf ||= a?.state !== "pending";
        return a;
      }
      if (a?.state === "pending" ? Date.now() > until : ++n >= tries) throw this.unresolved(a?.due);
      await sleep(backoff(a?.state === "pending" ? waits++ : n - 1), signal);
    }
  }

  /** Asks for an overtaken envelope and settles it. @param {Envelope} e */
  async settleListed(e) {
    const { state } = this;
    const [hash, ours] = [envelopeHash(e), this.ours(e)];
    this.asked.add(hash);
    const a = await this.ask(e, ours);
    if (a?.state === "answered" || a?.state === "unanswered") {
      try {
        await this.judge(e, hash, a, true);
      } catch (err) {
        if (ours || !(err instanceof CallError) || err.code !== "untrusted") throw err;
      }
    } else if (a?.state === "unknown" || a?.state === "too_old") {
      // Another call took its number, or the floor is above it. Only a first call later than the
      // floor can still be accepted, after a reset.
      state.old = without(state.old, hash);
      if (e.seq === 1 && (!a.floor || microsOf(e.ts) > microsOf(a.floor))) state.live.push(e);
      await this.save();
    } else if (ours && a) {
      throw a.refusal("question for the outcome");
    }
  }

  // ---- Reset ---------------------------------------------------------------------------

  /** @returns {Promise<null>} */
  async reset() {
    const { state } = this;
    if (!state.reset) await this.signReset("");
    for (let turn = 0; state.reset && turn < maxTurns; turn++) await this.finishReset();
    if (state.reset) throw this.unresolved();
    for (const e of [...state.old]) await this.settleListed(e);
    return null;
  }

  /** Signs a reset, later than all signed before and, as far as hosts accept it, than floor. @param {string} floor */
  async signReset(floor) {
    const { state } = this;
    const most = formatTime(BigInt(Math.trunc(this.now() + resetSpan)) * 1000n);
    const ts = this.stamp(floor && microsOf(floor) < microsOf(most) ? floor : "");
    state.reset = await signEnvelope(
      makeEnvelope({ from: state.self, to: state.target, ts, text: RESET_TEXT, idem: crypto.randomUUID() }), this.caller.signer,
    );
    this.noteSigned(ts);
    await this.save();
  }

  async finishReset() {
    const { state } = this;
    const e = /** @type {Envelope} */ (state.reset);
    if (this.now() - millis(e.ts) > resetSpan) return this.signReset("");
    for (let n = 0; ; n++) {
      let a = null;
      try {
        a = await this.post(resetPath, e);
      } catch (err) {
        if (this.options.signal?.aborted) throw err;
      }
      // A reset waits for a call that is at work.
      if (a && !a.inconclusive && a.code !== "pending") return this.judgeReset(e, a);
      if (n + 1 >= tries) throw this.unresolved();
      await sleep(backoff(n), this.options.signal);
    }
  }

  /** @param {Envelope} e @param {Answer} a */
  async judgeReset(e, a) {
    const { state } = this;
    if (a.status === 200) {
      if (a.members.get("ok") !== true) throw new CallError("untrusted", "The host does not confirm the reset.");
      this.record(e, { fate: "reset" });
      this.retire();
      Object.assign(state, { request: { seq: 0, hash: ZERO_HASH }, response: { seq: 0, hash: ZERO_HASH }, reset: null, epoch: state.epoch + 1 });
      this.asked.clear();
      return this.save();
    }
    if (a.status === 409) {
      if (++this.floorRetries > tries) throw new CallError("clock", "The host keeps asking for a later time. Check the clock of this computer.");
      if (this.floorRetries > 1) await sleep(backoff(this.floorRetries), this.options.signal);
      return this.signReset(a.floor);
    }
    if (a.now) {
      this.setClock(a.now);
      return this.signReset("");
    }
    // A refusal is final for these bytes. Kept, they would be sent before every later call.
    state.reset = null;
    await this.save();
    throw a.refusal("reset");
  }

  // ---- Ends without an answer ------------------------------------------------------------

  /** @param {Answer} a @returns {CallError} */
  moved(a) {
    const { request } = this.state;
    if (a.restored && a.expected > 0 && a.expected <= request.seq + 1) {
      return new CallError("moved", `The vacant was restored from a backup at ${a.restored}. It has the chain up to message ${a.expected - 1}, and accepts only messages signed later than ${a.floor}.`);
    }
    return new CallError("moved", `The chain was moved by another holder of this key, or reset by the other side (${a.detail}).`);
  }

  /** @param {string} [due] @param {Answer} [a] @returns {CallError} */
  unresolved(due = "", a) {
    return new CallError("pending", `The vacant has not answered yet${a ? ` (${a.status}: ${a.detail})` : ""}. The signed message is kept.`, { due, status: a?.status });
  }
}

const sendPath = "/a2a/message/send";
const askPath = "/a2a/message/ask";
const resetPath = "/a2a/chain/reset";

// A connection can die without a word, and its call keeps the other tabs waiting. The host answers within
// the time of an exchange, and sends a comment on a quiet stream more often than every idle time.
const exchange = 60_000;
const idle = 45_000;

// ---- Streams ---------------------------------------------------------------------------

const extension = "urn:vacant:v1";
const cutMember = "urn:vacant:cut:v1";
const receiptMember = "urn:vacant:receipt:v1";

/**
 * Returns a function for a Caller that sends a call as a stream of A2A 1.0 to a URL of a vacant, and passes the
 * text so far to piece. The text counts only once the signed answer confirms it.
 * @param {string} url @param {(text: string) => void} piece @returns {Stream}
 */
export const stream = (url, piece) => (e, most, stopped) => {
  const signed = JSON.parse(messageJSON(e));
  const parts = e.payload.parts.map((text) => ({ text }));
  return streamMessage(url, { messageId: "", contextId: e.payload.contextId ?? "", role: e.payload.role, parts, metadata: signed.metadata }, { id: envelopeHash(e), most, stopped, piece });
};

/**
 * Sends a message of A2A 1.0, and reads the stream of its answer.
 * @param {string} url @param {object} message @param {{id: string, most?: number, stopped?: AbortSignal, piece: (text: string) => void}} options
 * @returns {Promise<Streamed>}
 */
export async function streamMessage(url, message, { id, most, stopped, piece }) {
  const dead = new AbortController();
  const silent = setTimeout(() => dead.abort(), exchange); // until the answer begins
  const signal = AbortSignal.any([dead.signal, AbortSignal.timeout(longest), ...(stopped ? [stopped] : [])]);
  const response = await fetch(most === undefined ? url : `${url}?max_price=${most}`, {
    method: "POST", credentials: "omit", redirect: "error", cache: "no-store", signal,
    headers: { "Content-Type": "application/json", Accept: "text/event-stream", "A2A-Version": "1.0", "A2A-Extensions": extension },
    body: JSON.stringify({ jsonrpc: "2.0", id, method: "SendStreamingMessage", params: { message, configuration: { acceptedOutputModes: ["text/plain"] } } }),
  });
  const isStream = response.body && response.headers.get("Content-Type")?.startsWith("text/event-stream");
  const refusal = isStream ? null : await response.json().catch(() => null);
  clearTimeout(silent);
  if (!response.body || !isStream) return { detail: refusal?.error?.message };
  let [text, detail] = ["", ""];
  for await (const data of events(response.body)) {
    const { result, error } = plain(parseJSON(data, ANSWER_LIMITS)) ?? {};
    if (error) return { refused: error.data?.[0]?.metadata?.code, detail: error.message };
    for (const part of result?.artifactUpdate?.artifact?.parts ?? []) text += part?.text ?? "";
    if (text) piece(text);
    const end = result?.statusUpdate?.status?.message ?? result?.task?.status?.message ?? result?.message;
    if (end?.metadata?.[extension]) return { answer: answer(end) };
    detail = end?.parts?.[0]?.text ?? detail;
  }
  return { detail };
}

/** @param {any} m the signed message at the end @returns {string} the answer as the signed path sends it */
function answer(m) {
  const parts = m.parts.map((/** @type {any} */ p) => ({ type: "text", text: p.text }));
  const [cut, receipt] = [cutMember, receiptMember].map((name) => (typeof m.metadata[name] === "string" ? m.metadata[name] : ""));
  return canonical({
    result: { cut, receipt, message: { role: m.role, parts, contextId: m.contextId || null, messageId: m.messageId || null, metadata: { [extension]: m.metadata[extension] } } },
  });
}

/** @template T @param {number} ms @param {Promise<T>} promise @returns {Promise<T>} the promise, which fails after a time */
async function within(ms, promise) {
  let timer = 0;
  try {
    return await Promise.race([promise, new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("the connection is silent")), ms)))]);
  } finally {
    clearTimeout(timer);
  }
}

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} body @returns {AsyncGenerator<string>} the data of each event */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await within(idle, reader.read());
      if (done) return;
      rest += value;
      const blocks = rest.split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
        if (data.length > 0) yield data.join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
