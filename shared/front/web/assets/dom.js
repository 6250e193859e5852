// @ts-check
/**
 * Elements and texts that the scripts of several pages show.
 * @module
 */

/**
 * Shows control and format characters by their numbers, because some of them change how the
 * text around them is shown. Joiners stay: letters and emoji are built with them. So do
 * new lines and tabs. The server shows texts by the same rule.
 * @param {string} text
 * @returns {string}
 */
export const visible = (text) => text.replace(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\ufffd]/gu, (c) => `⟨U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/**
 * Makes an element. Texts become text nodes, so they are never read as HTML.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name @param {Record<string, string>} attributes @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

/** @param {string} label @param {() => void} act @param {Record<string, string>} [attributes] @returns {HTMLButtonElement} */
export function button(label, act, attributes = {}) {
  const b = element("button", { type: "button", ...attributes }, label);
  b.addEventListener("click", act);
  return b;
}

/** @param {string} text @param {string} [label] @returns {HTMLButtonElement} */
export function copyButton(text, label = "Copy") {
  const copy = button(label, async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Select the text and copy it";
    }
  }, { class: "quiet" });
  return copy;
}

/** @param {string} text @returns {HTMLElement} a text to copy, with a button */
export const copyable = (text) => element("div", { class: "copy" }, element("pre", { tabindex: "0", dir: "auto" }, visible(text)), copyButton(text));

/** @param {string} word @returns {string} quoted for a shell */
export const shellWord = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** @param {number} ms Unix milliseconds @returns {string} */
export const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ") + " UTC";

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
export const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Awaits an open store. The storage of a browser may stay silent. @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
export const opened = (request) =>
  Promise.race([done(request), new Promise((_, reject) => setTimeout(() => reject(new Error("its storage does not answer; close other tabs of this site, or start the browser again")), 5000))]);

// These texts say that no program of the page has loaded.
document.querySelectorAll(".unloaded").forEach((text) => text.remove());
