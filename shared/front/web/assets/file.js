// @ts-check
/**
 * Sends a message with a file to a vacant and verifies the signed answer. A signed message has no files, so the message
 * goes by A2A without a key.
 * @module
 */

import { streamMessage } from "./caller.js";
import { ANSWER_LIMITS, canonical, parseJSON, parseMessage, textOf, utf8, verifyEnvelope } from "./vacant.js";

const maxBytes = 256 << 10; // limit for a message and its file together

/** @param {File} file @returns {Promise<string>} its bytes in base64 */
const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(new Error(`The file ${file.name} could not be read: ${reader.error?.message}`));
    reader.readAsDataURL(file);
  });

/**
 * Returns the text of the verified answer.
 * @param {string} url @param {string} vacant @param {string} text @param {File} file
 * @param {{most?: number, stopped?: AbortSignal, piece: (text: string) => void}} options @returns {Promise<string>}
 */
export async function sendFile(url, vacant, text, file, options) {
  const size = file.size + utf8(text).length;
  if (size > maxBytes) throw new Error(`The message with the file ${file.name} has ${size} bytes. At most ${maxBytes} are allowed. Choose a smaller file.`);
  const id = crypto.randomUUID();
  const parts = [{ text }, { raw: await base64(file), filename: file.name, mediaType: file.type || "application/octet-stream" }];
  const { answer, detail } = await streamMessage(url, { messageId: id, role: "ROLE_USER", parts }, { id, ...options }).catch((err) => {
    throw new Error(`No answer came, and the message with the file may have been sent: ${err instanceof Error ? err.message : err}`);
  });
  if (!answer) throw new Error(`The vacant did not answer: ${detail || "no reason given, and the message may have been sent"}`);
  const result = /** @type {any} */ (parseJSON(answer, ANSWER_LIMITS)).get("result");
  const reply = parseMessage(canonical(result.get("message")));
  if (!(await verifyEnvelope(reply, vacant))) throw new Error("The answer is refused: the vacant did not sign it.");
  return textOf(reply) || "(an empty answer)";
}
