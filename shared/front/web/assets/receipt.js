// @ts-check
/**
 * Verifies the receipt of a call (PROTOCOL §19.6): its host certified the key that signed it
 * for the time of signing, and the signed bytes are rebuilt from its members.
 * @module
 */

import { canonical, concat, JSONNumber, microsOf, parseHash, parseID, parseJSON, utf8, VacantError, verify } from "./vacant.js";

/** @typedef {{host: string, key: string, caller: string, vacant: string, request: string, reply: string, charge: number, payment: string}} Receipt charge is in micro-dollars */

// Each begins the signed bytes of one kind of statement, so none can be taken for another.
const receiptTag = utf8("vacancy:receipt:v2\x1f");
const certificateTag = utf8("vacancy:hostkey:v1\x1f");

/** @param {unknown} value @param {string} name @returns {Map<string, any>} */
function object(value, name) {
  if (!(value instanceof Map)) throw new VacantError("malformed", `${name}: expected an object`);
  return value;
}

/** @param {Map<string, any>} o @param {string} name @returns {string} */
function text(o, name) {
  const value = o.get(name);
  if (typeof value !== "string") throw new VacantError("malformed", `${name}: expected a string`);
  return value;
}

/** @param {string} source the JSON of a receipt @returns {Promise<Receipt>} */
export async function verifyReceipt(source) {
  const { certificate: certified, signature, ...members } = Object.fromEntries(object(parseJSON(source), "receipt"));
  const [receipt, certificate] = [new Map(Object.entries(members)), object(certified, "certificate")];
  const [host, key, at] = [parseID(text(receipt, "host_id")), parseID(text(certificate, "key_id")), microsOf(text(receipt, "signed_at"))];
  const [from, until] = [text(certificate, "from"), text(certificate, "until")];
  /** @param {string} why */
  const refused = (why) => new VacantError("untrusted", why);
  if (text(certificate, "host_id") !== host) throw refused("the certificate is of another host");
  if (!(await verify(host, concat(certificateTag, utf8(canonical({ host_id: host, key_id: key, from, until }))), text(certificate, "signature")))) throw refused("the host did not sign the certificate of the key");
  if (at < microsOf(from) || at >= microsOf(until)) throw refused("the certificate does not cover the time of signing");
  if (!(await verify(key, concat(receiptTag, utf8(canonical(new Map([...receipt, ["key_id", key]])))), String(signature)))) throw refused("the certified key did not sign the receipt");
  const charge = receipt.get("charge");
  if (!(charge instanceof JSONNumber)) throw new VacantError("malformed", "charge: expected a number");
  return {
    host, key, caller: text(receipt, "caller_id"), vacant: text(receipt, "vacant_id"), charge: charge.value, payment: text(receipt, "payment"),
    request: parseHash(text(receipt, "request_hash")), reply: parseHash(text(receipt, "reply_hash")),
  };
}
