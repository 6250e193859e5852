// What the module answers to inputs of the Go tests, which judge the answers.
import * as vacant from "/assets/vacant.js";
import * as merkle from "/assets/merkle.js";
import { verifyReceipt } from "/assets/receipt.js";
import { signReview } from "/assets/review.js";

const big = { bytes: 16 << 20, depth: 32, keys: 1024 };

/** @param {() => any} f */
async function outcome(f) {
  try {
    return await f();
  } catch (err) {
    if (!(err instanceof vacant.VacantError)) throw err;
    return { error: err.code, message: err.message };
  }
}

const envelope = async (/** @type {vacant.Envelope} */ e) => ({ hash: vacant.envelopeHash(e), valid: await vacant.verifyEnvelope(e), message: vacant.messageJSON(e) });

/** @type {Record<string, (input: any) => any>} */
const subjects = {
  canonical: (hex) => {
    const value = vacant.parseJSON(vacant.parseHex(hex));
    const [cj, cja] = [vacant.canonical(value), vacant.canonicalASCII(value)];
    return { cj, cja, hash: vacant.hash(cj), hashA: vacant.hash(cja), again: vacant.canonical(vacant.parseJSON(cj)) };
  },
  time: (text) => ({ text: vacant.canonicalTime(text) }),
  hash: (hex) => ({ hash: vacant.hash(vacant.parseHex(hex)) }),
  id: (text) => ({ id: vacant.parseID(text), short: vacant.shortID(vacant.parseID(text)), did: vacant.didKey(text) }),
  seed: async (hex) => {
    const signer = await vacant.signerFromSeed(vacant.parseHex(hex), { exportable: true });
    return { id: signer.id, seed: vacant.toHex(await vacant.seedOf(signer)) };
  },
  signature: async ({ id, message, signature }) => ({ valid: await vacant.verify(id, vacant.parseHex(message), signature) }),
  envelope: async ({ seed, sequence_no: seq, timestamp: ts, prev_envelope_hash: prev, idempotency_key: idem, context_id: contextId, message_id: messageId, self_eval: selfEval, ...rest }) => {
    const signer = await vacant.signerFromSeed(vacant.parseHex(seed));
    const fields = { ...rest, seq, ts, prev, idem, contextId, messageId, selfEval };
    const e = await vacant.signEnvelope(vacant.makeEnvelope(fields), signer);
    return { bytes: vacant.toHex(vacant.envelopeBytes(e)), hash: vacant.envelopeHash(e), signature: e.signature, request: vacant.requestBody(e), valid: await vacant.verifyEnvelope(e) };
  },
  request: (hex) => envelope(vacant.parseRequest(vacant.parseHex(hex))),
  response: (hex) => envelope(vacant.parseResponse(vacant.parseHex(hex))),
  card: async ({ seed, policy_json: policy, capability_text: capabilityText, allowed_substrates: allowedSubstrates, halo_version: haloVersion, endpoint }) => {
    const signer = await vacant.signerFromSeed(vacant.parseHex(seed));
    const c = { vacantId: signer.id, capabilityText, allowedSubstrates, policy: vacant.parseJSON(policy, big), haloVersion, endpoint: endpoint ?? "" };
    const signature = await vacant.sign(signer, vacant.cardBytes(c));
    return { bytes: vacant.toHex(vacant.cardBytes(c)), hash: vacant.cardHash(c), signature, blob: vacant.cardBlob({ ...c, signature }), valid: await vacant.verifyCard({ ...c, signature }) };
  },
  blob: async (hex) => {
    const c = vacant.parseCard(vacant.parseHex(hex));
    return { valid: await vacant.verifyCard(c), hash: vacant.cardHash(c), blob: vacant.cardBlob(c) };
  },
  event: async ({ seed, prev_event_hash: prev, idempotency_key: key, ts_ms: time, actor_seq: actorSeq, card_hash, halo_version, visibility }) => {
    const signer = await vacant.signerFromSeed(vacant.parseHex(seed));
    const e = { actor: signer.id, type: "register", payload: JSON.stringify({ card_hash, halo_version, vacant_id: signer.id, visibility }), key, time, actorSeq };
    const signed = { ...e, signature: await vacant.sign(signer, vacant.eventBytes(e)) };
    return { bytes: vacant.toHex(vacant.eventBytes(e)), signature: signed.signature, hash: vacant.eventHash(signed, prev), valid: await vacant.verifyEvent(signed) };
  },
  epoch: ({ leaves }) => ({ root: merkle.epochRoot(leaves), bytes: vacant.toHex(merkle.epochBytes(merkle.epochRoot(leaves))) }),
  receipt: verifyReceipt,
  review: async ({ seed, call, dimensions, claim, at }) => ({ text: await signReview(await vacant.signerFromSeed(vacant.parseHex(seed)), call, dimensions, claim, at) }),
  note: ({ note, known }) => merkle.openCheckpoint(note, known),
  inclusion: async ({ log, seq, event, proof }) => (await merkle.verifyInclusion(log, seq, event, proof), {}),
  consistency: async ({ from, to, proof }) => (await merkle.verifyConsistency(from, to, proof), {}),
  read: async ({ seed, request, seconds }) => {
    const body = request.body && vacant.parseHex(request.body);
    return { value: await vacant.readProof(await vacant.signerFromSeed(vacant.parseHex(seed)), { ...request, body }, seconds) };
  },
};

/** @param {string} subject @param {string} path of the inputs */
export async function answers(subject, path) {
  const inputs = await (await fetch(path)).json();
  const out = [];
  for (const input of inputs) out.push(await outcome(() => subjects[subject](input)));
  return out;
}
