// @ts-check
/**
 * Shows the Markdown of an agent's answer. It makes elements and text nodes only, so no text of an agent is ever read as
 * HTML, and it loads nothing: an image is a link. Its time grows linearly with the length of the text.
 * @module
 */

import { copyable, element, visible } from "./dom.js";

/** @typedef {{mark: string, indent: number, depth: number, lines: string[]}} Fence */

const maxDepth = 8; // levels of lists, quotes and emphasis; deeper ones are shown as text
const maxElements = 4000; // what follows them is shown as text

/** The ends of code and of emphasis. A space before the end of emphasis, or a letter after an underscore, makes it text. @type {Record<string, RegExp>} */
const ends = {
  "`": /(?<!`)`(?!`)/g, "``": /(?<!`)``(?!`)/g, "```": /(?<!`)```(?!`)/g,
  "***": /(?<!\s)\*\*\*/g, "**": /(?<!\s)\*\*(?!\*)/g, "*": /(?<![\s*])\*(?!\*)/g, "__": /(?<!\s)__(?![\p{L}\p{N}_])/gu, "_": /(?<![\s_])_(?![\p{L}\p{N}_])/gu, "~~": /(?<!\s)~~/g,
};
/** @type {Record<string, ("strong" | "em" | "del")[]>} */
const tags = { "***": ["strong", "em"], "**": ["strong"], "*": ["em"], "__": ["strong"], "_": ["em"], "~~": ["del"] };

const special = /\\[!-/:-@[-`{-~]|`+|\*{1,3}|_{1,2}|~~|!?\[|<|\bhttps?:\/\//g;
// The lengths are bounded, so that each try is short.
const linkForm = /!?\[((?:[^[\]\\\n]|\\.|\[[^[\]\n]{0,500}\]){0,2000})\]\(<?([^\s()<>]{1,4000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,9})>?(?: {1,9}"[^"\n]{0,500}")? {0,9}\)/y;
const angleForm = /<((?:https?:\/\/|mailto:)[^\s<>]{1,4000})>/y;
const addressForm = /https?:\/\/[^\s<>"\x60]{1,2000}(?![^\s<>"\x60])/y; // a longer address is text

/** @param {RegExp} form sticky or global @param {string} text @param {number} at @returns {RegExpExecArray | null} */
function matchAt(form, text, at) {
  form.lastIndex = at;
  return form.exec(text);
}

/** Shows a text. */
class Renderer {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.made = 0;
    /** The open lists and quotes. A quote has the indent -1. @type {{box: HTMLElement, indent: number}[]} */
    this.open = [];
    /** @type {string[]} lines of the open paragraph */
    this.lines = [];
    this.level = 3; // level of the last heading; the page has the answer below a heading of level 3
    /** @type {Fence | null} */
    this.fence = null;
  }

  get box() {
    return this.open.at(-1)?.box ?? this.root;
  }

  /**
   * @template {keyof HTMLElementTagNameMap} K
   * @param {HTMLElement} to @param {K} name @param {Record<string, string>} [attributes] @returns {HTMLElementTagNameMap[K]}
   */
  add(to, name, attributes = {}) {
    this.made++;
    const e = element(name, attributes);
    to.append(e);
    return e;
  }

  /** Ends the open paragraph. A table is shown as it was written, so that its columns stay. */
  endParagraph() {
    const text = this.lines.join("\n");
    if (this.lines.length === 0) return;
    if (this.lines.every((line) => line.trimStart().startsWith("|"))) this.add(this.box, "pre", { tabindex: "0", dir: "auto" }).append(text);
    else this.inline(text, this.add(this.box, "p", { dir: "auto" }), 0, true);
    this.lines = [];
  }

  endFence() {
    if (!this.fence) return;
    this.made += 3;
    this.box.append(copyable(this.fence.lines.join("\n")));
    this.fence = null;
  }

  /** Closes the lists and quotes below a depth. @param {number} depth */
  close(depth) {
    if (depth === this.open.length) return;
    this.endParagraph();
    this.endFence();
    this.open.length = depth;
  }

  /** @param {string} text */
  blocks(text) {
    const lines = text.split("\n");
    for (const [i, line] of lines.entries()) {
      if (this.made > maxElements) {
        this.close(0);
        this.endParagraph();
        this.endFence();
        this.add(this.root, "p", { dir: "auto" }).append(lines.slice(i).join("\n"));
        return;
      }
      this.line(line);
    }
    this.endParagraph();
    this.endFence();
  }

  /** @param {string} line */
  line(line) {
    let rest = this.fence && this.open.length === 0 ? line : line.replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    "));
    const blank = line.trim() === "";
    let depth = 0;
    for (; depth < this.open.length; depth++) {
      const { indent } = this.open[depth];
      if (indent < 0) {
        const quote = /^ *> ?/.exec(rest);
        if (!quote) break;
        rest = rest.slice(quote[0].length);
      } else if (!blank) {
        if (rest.search(/[^ ]|$/) < indent) break;
        rest = rest.slice(indent);
      }
    }
    if (this.fence && depth === this.open.length) {
      const { mark, indent, lines } = this.fence;
      const end = rest.trim();
      if (end.startsWith(mark) && end === mark[0].repeat(end.length)) this.endFence();
      else lines.push(rest.slice(Math.min(indent, rest.search(/[^ ]|$/))));
      return;
    }
    if (rest.trim() === "") {
      if (blank && this.open.slice(depth).some(({ indent }) => indent < 0)) this.close(depth);
      return this.endParagraph();
    }
    const paragraph = this.begin(rest, depth);
    if (paragraph !== null) this.lines.push(this.open.length > 0 ? paragraph.trimStart() : paragraph);
  }

  /** Begins the blocks of a line below a depth. @param {string} rest @param {number} depth @returns {string | null} what belongs to a paragraph */
  begin(rest, depth) {
    for (;;) {
      const fence = /^( *)(`{3,}|~{3,})([^`]*)$/.exec(rest);
      if (fence) {
        this.close(depth);
        this.endParagraph();
        this.fence = { mark: fence[2], indent: fence[1].length, depth, lines: [] };
        return null;
      }
      const heading = /^ {0,3}(#{1,6}) +([^ ].*)/.exec(rest);
      if (heading) {
        this.close(depth);
        this.endParagraph();
        this.level = Math.min(heading[1].length + 3, this.level + 1, 6); // no level is left out
        this.inline(heading[2], this.add(this.box, /** @type {"h4"} */ (`h${this.level}`), { dir: "auto" }), 0, true);
        return null;
      }
      const bare = rest.replaceAll(" ", "");
      if (bare.length > 2 && "-*_".includes(bare[0]) && bare === bare[0].repeat(bare.length)) {
        this.close(depth);
        this.endParagraph();
        this.add(this.box, "hr");
        return null;
      }
      const quote = /^ *> ?/.exec(rest);
      const item = /^( *)([-*+]|(\d{1,9})[.)])( +|$)/.exec(rest);
      // In a paragraph only a bullet or a number 1 begins a list: a line may begin with the end of a sentence, such as 1984.
      const isText = item?.[3] && item[3] !== "1" && this.lines.length > 0 && depth === this.open.length;
      if (depth >= maxDepth || !(quote || (item && !isText))) break;
      this.close(depth);
      this.endParagraph();
      if (quote) {
        this.open.push({ box: this.add(this.box, "blockquote"), indent: -1 });
        rest = rest.slice(quote[0].length);
      } else if (item) {
        const name = item[3] ? "ol" : "ul";
        const last = this.box.lastElementChild;
        const list = last?.localName === name ? /** @type {HTMLElement} */ (last) : this.add(this.box, name, item[3] && item[3] !== "1" ? { start: item[3] } : {});
        this.open.push({ box: this.add(list, "li", { dir: "auto" }), indent: item[1].length + 2 });
        rest = rest.slice(item[0].length);
      }
      if (rest === "") return null;
      depth = this.open.length;
    }
    // A line that begins no block continues the open paragraph, also in a list or quote.
    if (this.lines.length === 0) this.close(depth);
    return rest;
  }

  /** Shows the text of one block. @param {string} text @param {HTMLElement} to @param {number} depth @param {boolean} canLink whether it may have links */
  inline(text, to, depth, canLink) {
    let plain = "";
    const missing = new Set(); // ends that the rest of the text does not have
    const flush = () => {
      if (plain) to.append(plain);
      plain = "";
    };
    let at = 0;
    for (let m; depth <= maxDepth && this.made <= maxElements && (m = matchAt(special, text, at)); ) {
      const [token] = m;
      plain += text.slice(at, m.index);
      at = m.index + token.length;
      if (token[0] === "\\") {
        plain += token[1];
      } else if (token in ends) {
        const isCode = token[0] === "`";
        const opens = at < text.length && (isCode || !/\s/.test(text[at])) && !(token[0] === "_" && /[\p{L}\p{N}_]/u.test(text[m.index - 1] ?? " "));
        const end = opens && !missing.has(token) ? matchAt(ends[token], text, at + 1) : null;
        if (!end) {
          if (opens) missing.add(token);
          plain += token;
          continue;
        }
        flush();
        if (isCode) this.add(to, "code", { dir: "auto" }).append(text.slice(at, end.index));
        else this.inline(text.slice(at, end.index), tags[token].reduce((box, name) => this.add(box, name), to), depth + 1, canLink);
        at = end.index + token.length;
      } else {
        at = m.index + this.addLink(text, m.index, token, flush, to, depth, canLink);
        if (at === m.index) {
          plain += token;
          at += token.length;
        }
      }
    }
    plain += text.slice(at);
    flush();
  }

  /**
   * Adds a link; an image becomes a link.
   * @param {string} text @param {number} at @param {string} token that begins it @param {() => void} flush @param {HTMLElement} to @param {number} depth @param {boolean} canLink
   * @returns {number} its length, or 0 if it is none
   */
  addLink(text, at, token, flush, to, depth, canLink) {
    const form = token === "<" ? angleForm : token.endsWith("[") ? linkForm : addressForm;
    const m = canLink && token[0] !== "`" ? matchAt(form, text, at) : null;
    if (!m) return 0;
    let [whole, label, address] = form === linkForm ? m : [m[0], "", m[1] ?? m[0]];
    if (form === addressForm) {
      // A sentence goes on after an address.
      let end = whole.length;
      const after = `.,:;!?'*_~]${whole.includes("(") ? "" : ")"}`;
      while (after.includes(whole[end - 1])) end--;
      whole = address = whole.slice(0, end);
    }
    const url = URL.canParse(address) ? new URL(address) : null;
    if (!url || !["http:", "https:", "mailto:"].includes(url.protocol)) return 0;
    flush();
    const a = this.add(to, "a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", dir: "auto" });
    if (token === "![") a.append("Image: ");
    if (label.trim()) this.inline(label, a, depth + 1, false);
    else a.append(address);
    // The text of a link may name another host. example.com begins with example.co, but is another host.
    const [origin, linkText] = [`${url.protocol}//${url.host}`, a.textContent?.toLowerCase() ?? ""];
    if (!linkText.startsWith(origin) || /^[^/?#]/.test(linkText.slice(origin.length))) this.add(to, "span", { class: "muted", dir: "ltr" }).append(` (${url.host || url.pathname})`);
    return whole.length;
  }
}

/** @param {string} text Markdown of an agent @returns {HTMLElement} */
export function markdown(text) {
  const root = element("div", { class: "text", dir: "auto" });
  new Renderer(root).blocks(visible(text.replaceAll("\r\n", "\n")));
  return root;
}
