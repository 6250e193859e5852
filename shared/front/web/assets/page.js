// @ts-check
/**
 * Checks the card and the events of a vacant in the browser, and copies programs.
 * @module
 */

import { copyButton } from "./dom.js";
import { cardHash, eventHash, parseCard, parseHex, verifyCard, verifyEvent } from "./vacant.js";
import "./talk.js";

/** @param {string} path @returns {Promise<string>} */
async function get(path) {
  const answer = await fetch(path, { credentials: "omit" });
  if (!answer.ok) throw new Error(`the host answered ${answer.status}`);
  return answer.text();
}

/**
 * Says what a check found, never by colour alone.
 * @param {Element | null} at @param {boolean} good @param {string} text
 */
function say(at, good, text) {
  if (!at) return;
  at.textContent = (good ? "✓ " : "✗ ") + text;
  at.className = good ? "ok" : "bad";
}

/** @param {HTMLElement} page */
async function checkCard(page) {
  const at = document.getElementById("card-check");
  try {
    const answer = JSON.parse(await get(page.dataset.card ?? ""));
    const card = parseCard(parseHex(answer.capability_card_blob_hex));
    const good = card.vacantId === page.dataset.id && (await verifyCard(card));
    if (!good) return say(at, false, "failed: the card is not signed by this id");
    if (cardHash(card) !== page.dataset.cardHash) return say(at, false, "this page shows another card; load it again");
    say(at, true, "verified"); // the host says that it verified the card, until the browser has
  } catch (e) {
    say(at, false, `not checked: ${e instanceof Error ? e.message : e}`);
  }
}

/** @param {HTMLElement} page */
async function checkEvents(page) {
  if (!page.dataset.events) return;
  /** @type {Record<string, any>[]} */
  const events = JSON.parse(await get(`${page.dataset.events}?from_seq=0&limit=50`));
  for (const e of events) {
    const at = page.querySelector(`li[data-seq="${Number(e.seq)}"] .event-check`);
    const event = {
      type: e.event_type, actor: e.actor_vacant_id, payload: e.payload_json, key: e.idempotency_key ?? "",
      time: e.ts, actorSeq: e.actor_seq, signature: e.signature_hex,
    };
    const shown = at?.parentElement?.dataset;
    if (!at || shown?.type !== e.event_type || shown?.time !== String(e.ts)) continue; // the page shows another event
    const good = e.actor_vacant_id === page.dataset.id && (await verifyEvent(event)) && eventHash(event, e.prev_event_hash_hex) === e.event_hash_hex;
    say(at, good, good ? "verified" : "failed: the event is not what its signer signed");
  }
  for (const at of page.querySelectorAll(".event-check:empty")) at.textContent = "not checked: the host does not show this event any more";
}

const page = document.getElementById("vacant");
if (page) {
  // Tabs: one of the programs is always shown.
  if (CSS.supports("selector(::details-content)")) page.querySelectorAll(".programs summary").forEach((s) => s.addEventListener("click", (event) => {
    if (/** @type {HTMLDetailsElement} */ (s.parentElement).open) event.preventDefault();
  }));
  if (navigator.clipboard) page.querySelectorAll(".programs details").forEach((p) => p.append(copyButton(p.querySelector("pre")?.textContent ?? "")));
  checkCard(page);
  checkEvents(page).catch((e) => say(page.querySelector(".event-check"), false, `not checked: ${e.message}`));
}
