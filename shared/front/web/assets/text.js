// @ts-check
/**
 * Texts of others, made visible.
 * @module
 */

/**
 * Shows control and format characters by their numbers, because some of them change how the
 * text around them is shown. Joiners stay: letters and emoji are built with them.
 * @param {string} text
 * @returns {string}
 */
export const visible = (text) => text.replace(/(?!\u200c|\u200d)[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => `<U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}>`);
