// @ts-check
/**
 * Lets an account of this host pay for the calls of a key of this browser. The person types a key of the account. It is
 * sent to this host only, by the requests of one press of the button, and is never stored.
 * @module
 */

import { element, visible } from "./dom.js";
import { parseHash, parseHex, parseID, sign, toBase64, utf8 } from "./vacant.js";

/** @typedef {{signer: import("./vacant.js").Signer, ahead: number, isShort: boolean, resend: () => boolean}} Payment
 * ahead is the milliseconds that the host's clock is ahead. isShort is true if an account pays for this key but has too little money. resend sends the message again, unless another call is under way */

// Any other text may be a password, which is not sent.
const keyForm = /^[a-z0-9]{1,12}_(live|test)_[A-Za-z0-9]{32}$/;

const checkoutPath = "/v1/account/checkout";
const linkDelay = 1100; // a process of the host may not know a new link for a second, in milliseconds

/**
 * Sends a request with the key of an account.
 * @param {string} key @param {string} path @param {object} [body] to post @returns {Promise<any>}
 */
async function request(key, path, body) {
  const headers = { Authorization: `Bearer ${key}`, "Idempotency-Key": crypto.randomUUID(), ...(body && { "Content-Type": "application/json" }) };
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), credentials: "omit", redirect: "error", cache: "no-store" });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const detail = String(answer.detail ?? `the host answered ${response.status}`).replace(/^Authorization: /, "");
  if (answer.code === "test_key") throw new Error("This is a test key, which cannot pay here. Type a live key of the account.");
  if (response.status === 401) throw new Error(`${location.host} does not accept this key: ${detail}. A key is valid only at the host that made it, until it is revoked or expires. If another host made this key, revoke it there, because this host has seen it.`);
  if (path === checkoutPath && response.status === 404) throw new Error("This host does not accept card payments. Ask its operator for credit.");
  throw new Error(`${location.host} refused: ${detail}.`);
}

/** Links a signer to the account of a key by a signed claim (PROTOCOL §19.5). @param {string} key @param {Payment} payment */
async function link(key, { signer, ahead }) {
  const { account, host_id: host } = await request(key, "/v1/account");
  // A claim that names no account would end the signer's link.
  const claim = [parseID(host), signer.id, parseHash(account), "0", String(Math.trunc(Date.now() + ahead) * 1000)];
  const signature = toBase64(parseHex(await sign(signer, utf8(["vacancy:claim:v1", ...claim].join("\x1f")))));
  await request(key, "/v1/account/links", { claim: [signer.id, host, ...claim.slice(2), signature.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")].join(".") });
  await new Promise((resolve) => setTimeout(resolve, linkDelay));
}

/** @param {Payment} payment @returns {HTMLElement} a form that pays */
export function payForm(payment) {
  const { isShort } = payment;
  // Without a name the key is in no URL, even if the browser itself submits the form.
  const input = element("input", { required: "", class: "secret", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const amount = element("input", { name: "amount", type: "number", min: "1", step: "0.01", value: "25", required: "" });
  const submit = element("button", {}, isShort ? "Open the payment page" : "Pay with this account");
  const verdict = element("p", { role: "status" });
  const form = element(
    "form", { class: "pay" },
    element("p", {}, element("label", {}, `Key of ${isShort ? "the" : "an"} account of ${location.host}${isShort ? ", with the scope manage" : ""}`, input)),
    ...(isShort ? [element("p", {}, element("label", {}, "Dollars to pay in by card", amount))] : []),
    element("p", { class: "row" }, submit, element("span", { class: "muted" }, "The key is sent only to this host, and is not stored.")),
    verdict,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return; // Enter submits a form whose button is disabled, too
    submit.disabled = true;
    const key = input.value.trim();
    input.value = "";
    verdict.className = "muted";
    verdict.textContent = "Asking the host";
    try {
      if (!keyForm.test(key)) throw new Error("Expected a key of an account, for example vac_live_ with 32 letters and digits after it. This text is not one, and was not sent.");
      if (isShort) {
        const page = await request(key, checkoutPath, { amount: Math.round(Number(amount.value) * 1e6) });
        const url = new URL(page.url);
        if (url.protocol !== "https:" && url.origin !== location.origin) throw new Error("The host named a payment page that is not at an https address.");
        verdict.replaceChildren(element("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, `Pay in at ${visible(url.host)}`), ", then send the message again.");
      } else {
        await link(key, payment);
        if (!payment.resend()) verdict.textContent = "✓ The account pays for this key now. Send the message again when the other call has ended.";
      }
    } catch (err) {
      verdict.className = "bad";
      verdict.textContent = `✗ ${visible(err instanceof Error ? err.message : String(err))}`;
    }
    submit.disabled = false;
  });
  return form;
}
