// @ts-check
/**
 * Texts of others, made visible.
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
