// @ts-check
/**
 * Reviews an answered call (PROTOCOL §20): the browser signs the record with the key that made the call, and posts it to
 * this host.
 * @module
 */

import { element, visible } from "./dom.js";
import { canonical, canonicalASCII, float, hash, now, parseHex, sign } from "./vacant.js";

/** @typedef {import("./vacant.js").Signer} Signer */
/** @typedef {{target: string, requestHash: string, epoch: number, request: {seq: number}}} Reviewed an answered call */

const submitPath = "/v1/submit_review";
const maxClaim = 1000; // characters

const questions = { factual: "Were the facts right?", logical: "Was the reasoning sound?", relevance: "Did it answer the message?" };
const grades = { 1: "yes", 0.75: "mostly", 0.5: "in part", 0.25: "hardly", 0: "no" };

/**
 * Signs a review.
 * @param {Signer} signer @param {Reviewed} call @param {Record<string, number>} dimensions from 0 to 1 @param {string} claim
 * @param {number} at Unix milliseconds @returns {Promise<string>} the signed record, as it is posted
 */
export async function signReview(signer, call, dimensions, claim, at) {
  const rated = Object.fromEntries(Object.entries(dimensions).map(([name, value]) => [name, float(value)]));
  const record = {
    reviewer: signer.id, target: call.target, dimensions: rated, substrate: "default", call_envelope_id_hex: call.requestHash, claim, issued_at: now(at),
    // The host finds an old call by its position, which is its number until a reset.
    ...(call.epoch === 0 && { call_position: call.request.seq }),
  };
  const payload = hash(canonicalASCII(record));
  return canonical({ ...record, payload_hash_hex: payload, signature_hex: await sign(signer, parseHex(payload)) });
}

/** @param {string} record @returns {Promise<string>} what the host did with the review */
async function submit(record) {
  const response = await fetch(submitPath, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: record, credentials: "omit", redirect: "error", cache: "no-store",
  });
  const answer = await response.json().catch(() => ({}));
  if (answer.code === "reviewed") throw new Error("You reviewed this answer already. Each answer is reviewed once.");
  if (!response.ok) throw new Error(`${location.host} refused the review: ${answer.detail ?? `it answered ${response.status}`}`);
  const score = (/** @type {any} */ standing) => Number(standing?.score).toFixed(3);
  return `Counted ${answer.class === "full" ? "in full" : "a quarter"}. The score is ${score(answer.after)}, and was ${score(answer.before)}.`;
}

/** @param {Signer} signer @param {Reviewed} call @param {number} ahead milliseconds that the host's clock is ahead @returns {HTMLElement} a form that signs a review */
export function reviewForm(signer, call, ahead) {
  const selects = Object.entries(questions).map(([name, question]) => {
    const options = Object.entries(grades).sort(([a], [b]) => Number(b) - Number(a)).map(([value, text]) => element("option", { value }, text));
    return { name, question, select: element("select", { name }, ...options) };
  });
  const claim = element("input", { maxlength: String(maxClaim), autocomplete: "off" });
  const submitButton = element("button", {}, "Sign and send the review");
  const verdict = element("p", { role: "status" });
  const form = element(
    "form", { class: "review" },
    ...selects.map(({ question, select }) => element("p", {}, element("label", {}, question, select))),
    element("p", {}, element("label", {}, "A sentence for the owner, public, may be empty", claim)),
    element("p", { class: "row" }, submitButton, element("span", { class: "muted" }, "Your key signs the review. The host checks that the call was answered.")),
    verdict,
  );
  let [signed, values] = ["", ""]; // the same bytes are sent again after a lost answer
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submitButton.disabled) return; // Enter submits a form whose button is disabled, too
    submitButton.disabled = true;
    verdict.className = "muted";
    verdict.textContent = "Sending the review";
    const dimensions = Object.fromEntries(selects.map(({ name, select }) => [name, Number(select.value)]));
    try {
      const asked = JSON.stringify([dimensions, claim.value]);
      if (asked !== values) [signed, values] = [await signReview(signer, call, dimensions, claim.value, Date.now() + ahead), asked];
      verdict.textContent = "✓ " + (await submit(signed));
      verdict.className = "ok";
    } catch (err) {
      verdict.className = "bad";
      verdict.textContent = `✗ ${visible(err instanceof Error ? err.message : String(err))}`;
      submitButton.disabled = false;
    }
  });
  return form;
}
