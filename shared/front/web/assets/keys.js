// @ts-check
/**
 * The page of this browser's keys: lists, exports and deletes them.
 * @module
 */

import { Book } from "./book.js";
import { button, copyable, element, moment } from "./dom.js";
import { seedOf, shortID, toHex } from "./vacant.js";

/** @typedef {import("./book.js").Key} Key */

/** @param {HTMLElement} place @param {Book} book @param {HTMLElement} status */
async function list(place, book, status) {
  const [keys, states] = [await book.keys(), await book.states()];
  place.replaceChildren();
  if (keys.length === 0) {
    place.append(element("p", {}, "This browser has no keys. The page of a vacant makes one when you send your first message."));
    return;
  }
  for (const key of keys) {
    const pairs = states.filter((s) => s.self === key.id);
    const open = pairs.filter((s) => s.job !== null).length;
    const card = element(
      "article", { class: "card", "aria-label": `Key ${shortID(key.id)}` },
      element("h2", {}, `Key ${shortID(key.id)}`),
      element(
        "dl", {}, element("dt", {}, "Id"), element("dd", {}, element("code", {}, key.id)), element("dt", {}, "Made"), element("dd", {}, moment(key.made)),
        element("dt", {}, "May be exported"), element("dd", {}, key.exportable ? "yes" : "no: no script can read it, not even this page's"),
        element("dt", {}, "Chains"), element("dd", {}, `with ${pairs.length} vacant${pairs.length === 1 ? "" : "s"}${open ? `, ${open} with a message under way` : ""}`),
      ),
    );
    const actions = element("p", { class: "row" });
    const below = element("div", {});
    if (key.exportable) actions.append(button("Export", () => exportKey(below, key)));
    actions.append(button("Delete", () => confirm(below, key, pairs.length, async () => {
      await book.deleteKey(key.id);
      await list(place, book, status);
      status.textContent = `Key ${shortID(key.id)} is deleted.`;
      status.focus();
    }), { class: "quiet" }));
    card.append(actions, below);
    place.append(card);
  }
}

/** @param {HTMLElement} below @param {Key} key */
async function exportKey(below, key) {
  const name = `vacant-${shortID(key.id)}.seed`;
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([toHex(await seedOf(key)) + "\n"], { type: "text/plain" })) }, `Save ${name}`);
  below.replaceChildren(
    element("p", {}, "The file is the secret of this key. Whoever has it signs as you."), element("p", {}, link),
    element("p", {}, "Import it with this command. The first call there starts its chains again with a reset, because the chains of this browser stay here:"),
    copyable(`vacancy init NAME --import ${name}`),
  );
  link.focus();
}

/** @param {HTMLElement} below @param {Key} key @param {number} chains @param {() => Promise<void>} act */
function confirm(below, key, chains, act) {
  const keep = button("Keep it", () => below.replaceChildren(), { class: "quiet" });
  const yes = button("Delete this key for good", () => act(), { class: "danger" });
  below.replaceChildren(
    element(
      "p", { role: "alert" },
      `Without the key nobody can sign as ${shortID(key.id)} again. Its chains with ${chains} vacant${chains === 1 ? "" : "s"} end, and answers that have not come are lost. `,
      key.exportable ? "Export it first if you may need it." : "This key cannot be exported, so there is no copy.",
    ),
    element("p", {}, "Its settled calls stay in this browser, under “Check a chain”, until the data of this site is cleared."),
    element("p", { class: "row" }, yes, keep),
  );
  keep.focus();
}

const place = document.getElementById("keys");
if (place) {
  const [cards, status] = [element("div", { class: "keys" }), element("p", { role: "status", tabindex: "-1" })];
  place.append(element("p", { class: "muted" }, "Keys are made in this browser and never sent. The host that serves this page could use them while one of its pages is open. Clearing the data of this site deletes them."), status, cards);
  try {
    await list(cards, await Book.open(), status);
  } catch (err) {
    status.textContent = `This browser lets the page store nothing, so it has no keys here (${err instanceof Error ? err.message : err}).`;
  }
}
