// @ts-check
/**
 * The conversation on a vacant's page. Each message is a signed call of caller.js with a key
 * that was made in this browser.
 * @module
 */

import { Book, pairOf } from "./book.js";
import { CallError, Caller, stoppable, stopped, stream } from "./caller.js";
import { button, copyable, copyButton, element, moment, shellWord, visible } from "./dom.js";
import { hasEd25519, messageJSON, newSigner, readProof, shortID, textOf, VacantError } from "./vacant.js";

/** @typedef {import("./book.js").Call} Call */
/** @typedef {import("./book.js").Key} Key */

const shownCalls = 20;

/** What helps after a refusal, by its code. @type {Record<string, string>} */
const helps = {
  pending: "Try again. The same signed bytes are sent, so the vacant never runs a message twice.",
  stopped: "Try again. The same signed bytes are sent, so the vacant never runs a message twice.",
  storage: "A message that is not stored could be lost, so none is sent. Free some space or let this site store data, then try again. An answer that could not be stored comes again.",
  untrusted: "The chain has not moved. Do not rely on this host before its operator explains this. Trying again asks for the answer again.",
  moved: "A reset starts the chain between your key and the vacant again. The settled messages stay in your history.",
  clock: "Set the clock of this computer, then try again.",
  price_above_max: "Allow a higher price under “Key and price”, or leave the field empty to allow what this page shows.",
  spend_cap_reached: "Try again after 00:00 UTC, or ask the owner of the account to raise the cap.",
  budget_spent: "Try again after 00:00 UTC.",
  too_many: "Wait a little, then send the message again.",
  revoked: "Choose another key.",
  gone: "Look for another vacant: this one never answers again.",
  not_accepting: "Try again later: the vacant is asleep.",
  misdirected: "Look for the vacant in the directory: it is no longer hosted here.",
  tree_only: "Only the vacant's parent and its other children may call it.",
  too_large: "Send a shorter message.",
};

/**
 * Verifies a receipt, and compares it with its call. The modules are loaded when a receipt is, because most pages show none.
 * @param {string} source @param {Call} call @returns {Promise<[boolean, string]>}
 */
async function judgeReceipt(source, call) {
  const [{ verifyReceipt }, { knownHost }] = await Promise.all([import("./receipt.js"), import("./log.js")]);
  try {
    const r = await verifyReceipt(source);
    const known = await knownHost().catch(() => "");
    if (known && r.host !== known) return [false, `✗ The receipt is signed by the host ${shortID(r.host)}. The log at this address was signed by ${shortID(known)}.`];
    if (r.request !== call.requestHash || r.reply !== call.replyHash) return [false, "✗ The receipt is of another call."];
    return [true, `✓ ${r.payment === "free" ? "A free call" : `Paid ${dollars(r.charge)}`}. The receipt names this message and this answer, and is signed by the host ${shortID(r.host)}${known ? ", whose log this browser knows" : ""}.`];
  } catch (err) {
    if (!(err instanceof VacantError)) throw err;
    return [false, `✗ The receipt does not verify: ${err.message}.`];
  }
}

/** @param {number} micros @returns {string} */
const dollars = (micros) => "$" + (micros / 1e6).toFixed(6).replace(/(\.\d\d\d*?)0+$/, "$1");

/** @param {number} ms @returns {string} */
const formatDuration = (ms) => {
  const seconds = Math.floor(ms / 1000);
  const parts = [seconds >= 60 && `${Math.floor(seconds / 60)} min`, (seconds % 60 || seconds === 0) && `${seconds % 60} s`];
  return parts.filter(Boolean).join(" ");
};

/** @param {boolean | null} good @param {string} yes @param {string} no @returns {HTMLElement} */
const check = (good, yes, no) => element("li", { class: good ? "ok" : "muted", "data-state": good ? "verified" : "not checked" }, good ? `✓ ${yes}` : `– not checked: ${no}`);

/** @param {string} text a message @returns {string} */
const pretty = (text) => JSON.stringify(JSON.parse(text), null, 2);

class Talk {
  /** @param {HTMLElement} place @param {string} vacant @param {string} name @param {string} send */
  constructor(place, vacant, name, send) {
    this.place = place;
    this.vacant = vacant;
    this.name = name;
    this.send = send;
    this.cost = Number(place.dataset.most); // the maximum cost of a call by this page, in micro-dollars
    this.address = new URL(send.replace(/\/a2a\/message\/send$/, ""), location.href).href;
    /** @type {Book | null} */
    this.book = null;
    /** @type {Key | null} */
    this.key = null;
    /** @type {Set<string>} */
    this.shown = new Set();
    /** @type {string | null | undefined} the conversation that is shown last; undefined if none is */
    this.context = undefined;
    /** @type {AbortController | null} of the turn that runs */
    this.waiting = null;
    this.said = element("ol", { class: "said" });
    this.status = element("p", { id: "talk-state", class: "muted", role: "status" });
    this.text = element("textarea", { id: "message", rows: "2", required: "", maxlength: "200000" });
    this.submit = element("button", { id: "send" }, "Send");
    this.stop = button("Stop waiting", () => this.waiting?.abort(), { id: "stop", class: "quiet", hidden: "" });
    // Pieces of an answer move the button. A press that begins on it must end on it, or the browser reports no click.
    this.stop.addEventListener("pointerdown", (event) => this.stop.setPointerCapture(event.pointerId));
    this.elapsed = element("span", { id: "elapsed", class: "muted", role: "timer" });
    /** Shows an answer as Markdown; null until markdown.js is loaded. @type {((text: string) => HTMLElement) | null} */
    this.render = null;
    this.file = element("input", { type: "file", id: "file", accept: place.dataset.files ?? "" });
    this.renew = button("New conversation", () => this.turn("", "", "", (options) => this.caller().renew(options)), { id: "renew", class: "quiet", hidden: "" });
    this.keys = element("select", { id: "key" });
    this.exportable = element("input", { type: "checkbox", id: "exportable" });
    this.newKey = element("p", { id: "new-key" }, this.exportable, element("label", { for: "exportable" }, " The new key may be exported from this browser"));
    this.most = element("input", { type: "number", id: "most", min: "0", step: "any", inputmode: "decimal", placeholder: "as this page shows" });
  }

  /** @param {string} text @returns {string} the same call in a shell, which takes no message for a flag */
  command(text) {
    return `vacancy call ${shellWord(this.address)} ${text.startsWith("-") ? "-- " : ""}${shellWord(text)}`;
  }

  build() {
    const form = element(
      "form", { id: "say" },
      element("label", { for: "message" }, "Your message"), this.text,
      element("div", { class: "row" }, this.submit, this.stop, this.elapsed, this.renew, element("span", { class: "muted keyboard" }, "Enter sends, Shift+Enter begins a line")),
      ...(this.place.dataset.files ? [element("p", {}, element("label", { for: "file" }, `A file (${visible(this.place.dataset.files.replaceAll(",", ", "))}; the message with it has at most 256 KiB, and is sent without your key)`), this.file)] : []),
      this.status, // below the buttons, which its texts would move
      element(
        "details", {}, element("summary", {}, "Key and price"),
        element("p", {}, element("label", { for: "key" }, "Sign with "), this.keys),
        this.newKey,
        element("p", {}, element("label", { for: "most" }, "Pay at most, in dollars "), this.most),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.say(this.text.value);
    });
    this.text.addEventListener("keydown", (event) => {
      // Enter also ends the composition of a word, by key 229 in Safari. Keyboards of touch screens have no Shift+Enter.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (this.text.value.trim()) form.requestSubmit();
    });
    this.keys.addEventListener("change", () => this.choose(this.keys.value));
    this.place.append(
      element(
        "p", { class: "muted" }, "Your browser makes a key, signs each message with it, and verifies each answer. The key stays in this browser. This host serves the page, so it could use the key while the page is open. ",
        element("a", { href: "/web/keys" }, "Your keys"),
      ),
      element("div", { role: "log", "aria-label": `Conversation with ${visible(this.name)}` }, this.said), form,
    );
  }

  /** Lists the keys and chooses the one that called this vacant last, or was made since. */
  async load() {
    this.book = await Book.open();
    const keys = await this.book.keys();
    let [best, at] = [keys[0]?.id ?? "", 0];
    for (const key of keys) {
      // A call in hand is finished before others are made.
      if ((await this.book.state(key.id, this.vacant)).job) [best, at] = [key.id, Infinity];
      const last = Math.max((await this.book.calls(pairOf(key.id, this.vacant))).at(-1)?.at ?? 0, key.made);
      if (last > at) [best, at] = [key.id, last];
    }
    this.list(keys, best);
    await this.choose(best);
  }

  /** @param {Key[]} keys @param {string} chosen */
  list(keys, chosen) {
    this.keys.replaceChildren(...keys.map((k) => element("option", { value: k.id }, `${shortID(k.id)}, made ${moment(k.made)}`)), element("option", { value: "" }, "a new key"));
    this.keys.value = chosen;
  }

  /** Shows the conversation of a key, and finishes its call in hand. @param {string} id */
  async choose(id) {
    const book = /** @type {Book} */ (this.book);
    let job;
    this.busy(true); // a turn would use the key that was chosen before
    try {
      this.key = (await book.keys()).find((k) => k.id === id) ?? null;
      this.said.replaceChildren();
      this.shown.clear();
      this.context = undefined;
      this.renew.hidden = true;
      await this.refresh();
      job = this.key && (await book.state(this.key.id, this.vacant)).job;
    } finally {
      this.busy(false);
    }
    if (job) await this.turn(job.text, job.idem, "An earlier message has no answer yet. It is sent again.", (options) => this.caller().resume(options));
  }

  /** Shows the settled calls that are not shown yet, also those of other tabs. */
  async refresh() {
    if (!this.book || !this.key) return;
    const calls = (await this.book.calls(pairOf(this.key.id, this.vacant))).slice(-shownCalls);
    if (calls.some((call) => call.reply)) await this.loadMarkdown();
    for (const call of calls) {
      if (this.shown.has(call.requestHash)) continue;
      this.shown.add(call.requestHash);
      if (call.fate === "reset") {
        this.add("note", element("p", {}, "The chain was reset."));
        continue;
      }
      this.divide(call.request.payload.contextId);
      this.add("mine", this.body(textOf(call.request)));
      this.add("theirs", ...this.answer(call));
      this.renew.hidden = false;
    }
    this.divide((await this.book.state(this.key.id, this.vacant)).context ?? this.context);
  }

  /** Shows that another conversation begins below. @param {string | null | undefined} context */
  divide(context) {
    if (this.context !== undefined && context !== this.context) {
      this.add("note", element("p", {}, "A new conversation. The agent does not see what is above."));
      this.renew.hidden = true; // until it has a message
    }
    this.context = context;
  }

  /** @param {string} kind @param {...Node} children @returns {HTMLElement} */
  add(kind, ...children) {
    const who = kind === "mine" ? "You" : kind.startsWith("theirs") ? visible(this.name) : kind === "refused" ? "No answer" : "This page";
    const item = element("li", { class: kind }, element("h3", { class: "who" }, who), ...children);
    this.said.append(item);
    item.scrollIntoView({ block: "nearest" });
    return item;
  }

  /** @param {string} text @returns {HTMLElement} */
  body(text) {
    return element("p", { class: "text", dir: "auto" }, visible(text));
  }

  /** @param {Call} call @returns {Node[]} */
  answer(call) {
    const out = [];
    const text = call.reply ? textOf(call.reply) : "";
    if (call.reply) out.push(text && this.render ? this.render(text) : this.body(text || "(an empty answer)"));
    else if (call.fate === "text_gone") out.push(element("p", {}, `The vacant answered with number ${call.replySeq}. The host no longer stores the text.`));
    else out.push(element("p", { class: "bad" }, `✗ The message has no answer: ${visible(call.detail)}`), element("p", {}, "Send it again as a new message."));
    if (call.cut) out.push(element("p", { class: "bad" }, `This is only a part of the answer (${visible(call.cut)}). The vacant signed the part.`));
    if (call.checks) {
      out.push(
        element(
          "ul", { class: "checks", role: "list", "aria-label": "Verified in this browser" },
          check(call.checks.signature, `signed by ${shortID(call.target)}`, "signature"),
          check(call.checks.binding, "answers this message", "binding"),
          check(call.checks.position, `answer ${call.replySeq} of the chain`, "the place in the chain, because another program moved the chain"),
        ),
      );
    }
    if (text) out.push(copyButton(text, "Copy the answer"));
    if (call.receipt) out.push(this.receipt(call));
    if (call.fate === "answered") out.push(this.review(call));
    /** @type {HTMLElement[]} */
    const parts = [element("h4", {}, "Signed message"), element("pre", { tabindex: "0" }, visible(pretty(messageJSON(call.request))))];
    if (call.reply) parts.push(element("h4", {}, "Signed answer"), element("pre", { tabindex: "0" }, visible(pretty(messageJSON(call.reply)))));
    parts.push(element("h4", {}, "The same call in a terminal"), copyable(this.command(textOf(call.request))));
    out.push(element("details", {}, element("summary", {}, "Evidence and command"), ...parts));
    return out;
  }

  /** @param {Call} call @returns {HTMLElement} the receipt, which is read with a signed request */
  receipt(call) {
    const place = element("p", { class: "receipt" }, "This answer has a receipt. ");
    place.append(button("Show the receipt", async () => {
      try {
        if (!this.key) return;
        const { ahead } = await /** @type {Book} */ (this.book).state(call.self, call.target);
        const header = await readProof(this.key, { authority: location.host, method: "GET", target: call.receipt }, Math.floor((Date.now() + ahead) / 1000));
        const response = await fetch(call.receipt, { headers: { "Vacancy-Caller": header }, credentials: "omit", cache: "no-store" });
        const source = await response.text();
        if (!response.ok) throw new Error(String(JSON.parse(source).detail));
        const [good, verdict] = await judgeReceipt(source, call);
        const focused = place.contains(document.activeElement);
        place.replaceChildren(element("span", { class: good ? "ok" : "bad" }, visible(verdict)), element("pre", { tabindex: "0" }, visible(pretty(source))));
        if (focused) place.querySelector("pre")?.focus();
      } catch (err) {
        place.replaceChildren(`The receipt could not be read: ${visible(err instanceof Error ? err.message : String(err))}`);
      }
    }, { class: "quiet" }));
    return place;
  }

  /** @param {Call} call @returns {HTMLElement} the form of a review, which is loaded when the person opens it */
  review(call) {
    const place = element("details", { class: "reviewed" }, element("summary", {}, "Review this answer"));
    const load = async () => {
      const [{ reviewForm }, { ahead }] = await Promise.all([import("./review.js"), /** @type {Book} */ (this.book).state(call.self, call.target)]);
      if (this.key?.id === call.self) place.append(reviewForm(this.key, call, ahead));
    };
    place.addEventListener("toggle", () => load().catch((err) => place.append(`The form could not be loaded: ${visible(err instanceof Error ? err.message : String(err))}`)), { once: true });
    return place;
  }

  /** @param {string} text */
  say(text) {
    // Enter submits a form whose button is disabled, too.
    if (this.submit.disabled || text.trim() === "") return;
    this.text.value = "";
    this.text.focus(); // the button is disabled during the turn
    const file = this.file.files?.[0];
    this.file.value = "";
    if (file) this.sayWithFile(text, file);
    else this.begin(text, crypto.randomUUID());
  }

  /** Sends a message with a file. The vacant signs the answer, which the browser does not keep. @param {string} text @param {File} file */
  async sayWithFile(text, file) {
    const note = `With the file ${visible(file.name)}.`;
    let reply = "";
    await this.turn(text, "", note, async ({ signal, maxPrice, piece }) => {
      const { sendFile } = await stoppable(signal, import("./file.js"));
      const sending = sendFile(`${this.address}/`, this.vacant, text, file, { most: maxPrice, stopped: signal, piece });
      const answer = await sending.catch((err) => {
        throw signal.aborted ? new CallError("file", "You stopped waiting. The message with the file may have been sent.") : err;
      });
      await this.loadMarkdown();
      reply = answer;
    });
    if (!reply) return;
    this.add("mine", this.body(text), element("p", { class: "muted" }, note));
    this.add(
      "theirs", this.render?.(reply) ?? this.body(reply), element("ul", { class: "checks", role: "list", "aria-label": "Verified in this browser" }, check(true, `signed by ${shortID(this.vacant)}`, "")),
      copyButton(reply, "Copy the answer"), element("p", { class: "muted" }, "A message with a file is sent without your key, so the answer is in no chain, and is lost when you load this page again."),
    );
  }

  /** Loads the Markdown renderer for the first answer. If loading fails, answers are shown as plain text. */
  async loadMarkdown() {
    this.render ??= await import("./markdown.js").then((m) => m.markdown, () => null);
  }

  /** Sends a message with the chosen key, or with a new one. @param {string} text @param {string} idem of the message */
  begin(text, idem) {
    return this.turn(text, idem, "", async (options) => {
      await this.ready(options.signal);
      return this.caller().call(text, options);
    });
  }

  /** Makes a key unless one is chosen. @param {AbortSignal} signal */
  async ready(signal) {
    const book = /** @type {Book} */ (this.book);
    const keys = await stoppable(signal, book.keys());
    if (keys.some((k) => k.id === this.key?.id)) return;
    this.key = null; // another tab deleted it
    this.status.textContent = "Making a key in this browser";
    const key = { ...(await stoppable(signal, newSigner({ exportable: this.exportable.checked }))), exportable: this.exportable.checked, made: Date.now() };
    try {
      await stoppable(signal, book.addKey(key));
    } catch (err) {
      signal.throwIfAborted();
      throw new CallError("storage", `The new key could not be stored in this browser: ${err instanceof Error ? err.message : err}`);
    }
    this.key = key;
    this.list([key, ...keys], key.id);
  }

  /** @returns {Caller} for the chosen key */
  caller() {
    return new Caller(/** @type {Book} */ (this.book), /** @type {Key} */ (this.key), { id: this.vacant, send: this.send });
  }

  /**
   * Runs an operation on a message and shows what comes of it. One turn runs at a time. Stop ends it in every phase,
   * because a turn awaits a promise only by stoppable, or one that ends with the signal.
   * @param {string} text @param {string} idem of the message @param {string} note
   * @param {(options: import("./caller.js").Options & {signal: AbortSignal, piece: (text: string) => void}) => Promise<unknown>} operation
   */
  async turn(text, idem, note, operation) {
    if (this.waiting) return;
    this.waiting = new AbortController();
    const { signal } = this.waiting;
    this.busy(true);
    const mine = text && this.add("mine", this.body(text), ...(note ? [element("p", { class: "muted" }, note)] : []));
    /** @type {HTMLElement | null} */
    let provisional = null;
    const piece = (/** @type {string} */ so) => {
      if (signal.aborted) return;
      provisional ??= this.add("theirs provisional", element("p", { class: "muted" }, "… provisional: not verified until the signed answer comes"), this.body(""));
      /** @type {HTMLElement} */ (provisional.querySelector(".text")).textContent = visible(so);
    };
    const began = Date.now();
    let limit = 0;
    const ticking = setInterval(() => {
      const elapsed = Date.now() - began;
      this.elapsed.textContent = formatDuration(elapsed) + (limit > elapsed ? `, up to ${formatDuration(limit)}` : "");
    }, 1000);
    const tell = (/** @type {string} */ state, /** @type {number} */ left = 0) => {
      if (signal.aborted) return;
      if (left > 0) limit = Math.round((Date.now() - began + left) / 5000) * 5000;
      this.tell(state);
    };
    /** @type {unknown} */
    let failure;
    try {
      // The person has agreed to no other price than the page shows.
      const most = this.most.value !== "" ? Math.min(Math.round(Number(this.most.value) * 1e6), Number.MAX_SAFE_INTEGER) : this.cost;
      await operation({ signal, idem, maxPrice: most, tell, piece, stream: stream(`${this.address}/`, piece) });
    } catch (err) {
      failure = signal.aborted ? stopped(err) : err;
    }
    clearInterval(ticking);
    this.elapsed.textContent = "";
    this.waiting = null;
    this.busy(false);
    /** @type {HTMLElement | null} */ (provisional)?.remove();
    if (mine) mine.remove();
    this.status.textContent = "";
    if (!signal.aborted) await this.refresh().catch((err) => (failure ??= err));
    if (failure) this.refuse(failure, text, idem);
  }

  /** @param {boolean} busy */
  busy(busy) {
    this.submit.disabled = busy;
    this.keys.disabled = busy;
    this.stop.hidden = this.waiting === null;
    this.renew.disabled = busy;
    this.newKey.hidden = this.key !== null;
    this.said.setAttribute("aria-busy", String(busy));
  }

  /** @param {string} state of the call */
  tell(state) {
    const texts = /** @type {Record<string, string>} */ ({
      locked: "Another tab has a call to this vacant in flight. This call waits for it.",
      sent: "Signed and sent. Waiting for the answer",
      retry: "No answer. Sending the same bytes again",
      ask: "Asking what became of an earlier message",
      pending: "The vacant needs more time. You may close this page; the host keeps the answer.",
    });
    if (texts[state] && this.status.textContent !== texts[state]) this.status.textContent = texts[state];
  }

  /**
   * Says what a call costs, and lets the person pay. The form is loaded when a call has a price, because most pages show none.
   * @param {any[]} ways of the refusal @param {() => boolean} resend sends the message again, unless a turn runs @returns {HTMLElement[]}
   */
  explainPrice(ways, resend) {
    const [isShort, free] = [ways.some((way) => way?.way === "credit"), ways.find((way) => way?.way === "free")];
    const reason = isShort ? "the account that pays for your key has less" : "no account pays for your key yet";
    const freeCalls = free ? ` ${Number(free.calls)} ${Number(free.calls) === 1 ? "call a day is" : "calls a day are"} free, the next after 00:00 UTC.` : "";
    const formPlace = element("div", {});
    this.said.querySelectorAll(".pay").forEach((form) => form.remove()); // of an earlier message
    const load = async () => {
      const [{ payForm }, { ahead }] = await Promise.all([import("./pay.js"), /** @type {Book} */ (this.book).state(/** @type {Key} */ (this.key).id, this.vacant)]);
      formPlace.append(payForm({ signer: /** @type {Key} */ (this.key), ahead, isShort, resend }));
    };
    if (ways.some((way) => way?.way === "link")) load().catch((err) => formPlace.append(`The form to pay could not be loaded: ${visible(err instanceof Error ? err.message : String(err))}`));
    return [element("p", { class: "bad" }, `✗ A call costs at most ${dollars(this.cost)}, and ${reason}.${freeCalls}`), formPlace];
  }

  /** Shows why a message has no answer, and what helps. @param {unknown} err @param {string} text @param {string} idem of the message */
  refuse(err, text, idem) {
    const known = err instanceof CallError ? err : new CallError("failed", err instanceof Error ? err.message : String(err));
    const { code, more } = known;
    /** @type {HTMLElement[]} */
    const children = [element("p", { class: "bad" }, `✗ ${visible(known.message)}`)];
    const call = (/** @type {import("./caller.js").Options} */ options) => this.caller().call(text, options);
    const help = (code === "price_above_max" && this.most.value === "" ? "The price has changed. Load the page again to see the new price." : helps[code]) ?? (code.startsWith("substrate") ? "The vacant's agent has a problem. Try again later." : "");
    if (help) children.push(element("p", { class: "help" }, help, code === "too_many" && more.retry ? ` (${more.retry} seconds)` : ""));
    if (code === "payment_required") children.splice(0, children.length, ...this.explainPrice(more.pay ?? [], () => {
      if (this.waiting) return false;
      item.remove();
      this.turn(text, idem, "", call);
      return true;
    }));
    const actions = element("p", { class: "row" });
    const item = this.add("refused", this.body(text), ...children, actions);
    const then = (/** @type {string} */ label, /** @type {() => void} */ act) => actions.append(button(label, () => {
      if (this.waiting) return;
      item.remove();
      act();
    }));
    const again = ["pending", "stopped", "untrusted", "storage", "clock", "moved"].includes(code);
    const kept = again && this.key !== null;
    if (again && code !== "moved") then("Try again", () => (kept ? this.turn(text, idem, "", call) : this.begin(text, idem)));
    if (code === "moved" || more.reset) then("Reset the chain and send again", () => this.turn(text, idem, "The chain is reset first.", async (options) => {
      await this.caller().reset(options);
      return call(options);
    }));
    if (kept && code !== "storage") then("Give up on this message", () => this.turn(text, idem, "", (options) => this.caller().giveUp(idem, options)));
    if (!kept) then("Edit the message", () => {
      this.text.value = text;
      this.text.focus();
    });
    this.said.append(item);
  }
}

const place = document.getElementById("talk");

/** @param {HTMLElement} talk */
async function start(talk) {
  const article = document.getElementById("vacant");
  const vacant = talk.dataset.vacant ?? "";
  const name = article?.dataset.name || shortID(vacant);
  const endpoint = talk.dataset.endpoint ?? "";
  talk.append(element("h2", { id: "talk-title" }, `Talk to ${visible(name)}`));
  talk.setAttribute("aria-labelledby", "talk-title");
  talk.hidden = false;
  /** @param {string} why */
  const instead = (why) => talk.append(element("p", {}, why), ...(endpoint ? [element("p", {}, "You can call it from a terminal:"), copyable(`vacancy call ${shellWord(endpoint)} hello`)] : []));
  if (!endpoint) return instead("This vacant has no endpoint, so nobody can call it.");
  const url = URL.canParse(endpoint, location.href) ? new URL(endpoint, location.href) : null;
  // The host vouches for the address of its own vacants only.
  if (!url || !article?.dataset.host || url.pathname.startsWith("//")) return instead("This vacant lives at another host. This page calls vacants of its own host only.");
  if (!isSecureContext || !navigator.locks || !(await hasEd25519())) {
    return instead(isSecureContext ? "This browser cannot sign with Ed25519, so it cannot call the vacant from this page. Chromium 137, Firefox 130 and Safari 17 can." : "Browsers make keys only for pages at an https address or on the same machine, so this page cannot call the vacant.");
  }
  const t = new Talk(talk, vacant, name, url.pathname);
  t.build();
  t.submit.disabled = true; // until the keys are known
  try {
    await t.load();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && !t.waiting) t.refresh().catch(() => {}); // what other tabs settled
    });
  } catch (err) {
    talk.replaceChildren(/** @type {HTMLElement} */ (talk.firstElementChild));
    instead(`This browser lets the page store nothing (${err instanceof Error ? err.message : err}). A message that is not stored could be lost, so this page sends none.`);
  }
}

if (place) start(place);
