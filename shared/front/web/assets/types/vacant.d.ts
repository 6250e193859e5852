/** @param {string} text @returns {Bytes} its UTF-8; lone surrogates are refused */
export function utf8(text: string): Bytes;
/**
 * Parses hex of either case. As the reference does, it skips ASCII white space between
 * pairs and at both ends.
 * @param {string} text @returns {Bytes}
 */
export function parseHex(text: string): Bytes;
/** @param {Uint8Array[]} parts @returns {Bytes} */
export function concat(...parts: Uint8Array[]): Bytes;
/** @param {number} n a finite number @returns {JSONNumber} the float, with a point or an exponent */
export function float(n: number): JSONNumber;
/**
 * Parses one JSON document in one reading: no duplicate keys, no lone surrogates, no
 * number outside float64, and within limits.
 * @param {string | Uint8Array} source @param {Readonly<Limits>} [limits] @returns {Value}
 */
export function parseJSON(source: string | Uint8Array, limits?: Readonly<Limits>): Value;
/** Converts a parsed value to ordinary JavaScript: objects without a prototype, numbers. @param {Value} value @returns {any} */
export function plain(value: Value): any;
/** Compares by code point, where UTF-16 sorts surrogates too low. @param {string} a @param {string} b @returns {number} */
export function compareKeys(a: string, b: string): number;
/** @param {bigint} micros Unix microseconds @returns {string} */
export function formatTime(micros: bigint): string;
/** Parses a time as the reference's language does (PROTOCOL §3). @param {string} text @returns {bigint} Unix microseconds */
export function microsOf(text: string): bigint;
/** Hashes with BLAKE2b of digest length 32, without a key. @param {Uint8Array | string} data a string is hashed as UTF-8 @returns {Bytes} */
export function blake2b(data: Uint8Array | string): Bytes;
/** Throws unless id is a canonical key that is not of small order. @param {string} id */
export function checkID(id: string): void;
/** @param {string} id @returns {string} the id as a did:key */
export function didKey(id: string): string;
/** Reports whether this runtime has Ed25519 in WebCrypto. It needs a secure context. @returns {Promise<boolean>} */
export function hasEd25519(): Promise<boolean>;
/**
 * Makes a key. Unless it is exportable, no script can read it, and it can only sign.
 * @param {{exportable?: boolean}} [options] @returns {Promise<Signer>}
 */
export function newSigner({ exportable }?: {
    exportable?: boolean;
}): Promise<Signer>;
/** Imports the key of a seed of 32 bytes. @param {Uint8Array} seed @param {{exportable?: boolean}} [options] @returns {Promise<Signer>} */
export function signerFromSeed(seed: Uint8Array, { exportable }?: {
    exportable?: boolean;
}): Promise<Signer>;
/** @param {Signer} signer whose key is exportable @returns {Promise<Bytes>} its 32-byte seed */
export function seedOf(signer: Signer): Promise<Bytes>;
/** @param {string} text standard base64 with padding @returns {Bytes} */
export function fromBase64(text: string): Bytes;
/** @param {Signer} signer @param {Bytes} bytes @returns {Promise<string>} the signature */
export function sign(signer: Signer, bytes: Bytes): Promise<string>;
/**
 * Reports whether signature is id's of bytes, by libsodium's rules: 64 bytes, S below the
 * group's order, a canonical key, and neither the key nor R of small order.
 * @param {string} id @param {Bytes} bytes @param {string} signature @returns {Promise<boolean>}
 */
export function verify(id: string, bytes: Bytes, signature: string): Promise<boolean>;
/**
 * Makes an unsigned envelope, and refuses what a recipient would refuse.
 * @param {{from: string, to: string, seq?: number, prev?: string, ts?: string, idem?: string, text?: string, parts?: string[], role?: string,
 * contextId?: string | null, messageId?: string | null, selfEval?: SelfEval | null}} fields
 * @returns {Envelope}
 */
export function makeEnvelope(fields: {
    from: string;
    to: string;
    seq?: number;
    prev?: string;
    ts?: string;
    idem?: string;
    text?: string;
    parts?: string[];
    role?: string;
    contextId?: string | null;
    messageId?: string | null;
    selfEval?: SelfEval | null;
}): Envelope;
/** @param {Envelope} e @param {Signer} signer of e.from @returns {Promise<Envelope>} the signed envelope */
export function signEnvelope(e: Envelope, signer: Signer): Promise<Envelope>;
/** @param {Envelope} e @returns {string} the message object of a request or an answer */
export function messageJSON(e: Envelope): string;
/**
 * The JSON-RPC request that carries a signed envelope.
 * @param {Envelope} e @param {string} [id] of JSON-RPC; without it the idempotency key, or the hash if that is empty @returns {string}
 */
export function requestBody(e: Envelope, id?: string): string;
/** Parses the body of message/send. The signature is not verified. @param {string | Uint8Array} body @returns {Envelope} */
export function parseRequest(body: string | Uint8Array): Envelope;
/** Parses result.message of an answer. The signature is not verified. @param {string | Uint8Array} body @returns {Envelope} */
export function parseResponse(body: string | Uint8Array): Envelope;
/** Parses a message object. The signature is not verified. @param {string | Uint8Array} text @returns {Envelope} */
export function parseMessage(text: string | Uint8Array): Envelope;
/**
 * Checks an answer against its request, and against the last answer of the same epoch.
 * @param {Envelope} answer @param {Envelope} request @param {{seq: number, hash: string}} [tip] of the response chain; the start of a chain by default
 * @returns {Promise<{signature: boolean, binding: boolean, position: boolean}>}
 */
export function checkResponse(answer: Envelope, request: Envelope, tip?: {
    seq: number;
    hash: string;
}): Promise<{
    signature: boolean;
    binding: boolean;
    position: boolean;
}>;
/** Parses a serialised card. The signature is not verified. @param {string | Uint8Array} blob @returns {Card} */
export function parseCard(blob: string | Uint8Array): Card;
/** @param {Card} c @returns {Bytes} the signed bytes */
export function cardBytes(c: Card): Bytes;
/** @param {Card} c @returns {string} the serialised card */
export function cardBlob(c: Card): string;
/** @param {Card} c @param {Signer} signer @returns {Promise<Card>} the signed card */
export function signCard(c: Card, signer: Signer): Promise<Card>;
/** @param {RegistryEvent} e @returns {Bytes} the signed bytes */
export function eventBytes(e: RegistryEvent): Bytes;
/**
 * Makes the value of the header Vacancy-Caller, which proves who reads.
 * @param {Signer} signer @param {ReadRequest} request authority is the host and port, target the path and query as sent
 * @param {number} [seconds] Unix time @returns {Promise<string>}
 */
export function readProof(signer: Signer, request: ReadRequest, seconds?: number): Promise<string>;
/**
 * The vacant protocol for browsers and Node: canonical JSON, times, hashes, signatures,
 * envelopes, cards, events and signed reads (PROTOCOL.md §1 to §10, §16, §19).
 *
 * Ids, hashes and signatures are lower-case hex. Times are canonical texts, which sort as
 * texts. Signed bytes are rebuilt from parsed fields and never taken from the wire.
 * @module
 */
/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** @typedef {null | boolean | string | JSONNumber | JSONArray | JSONObject} Value */
/** @typedef {Value[]} JSONArray */
/** @typedef {Map<string, Value>} JSONObject */
/** @typedef {{bytes: number, depth: number, keys: number}} Limits */
/** @typedef {{id: string, key: CryptoKey}} Signer */
/** @typedef {{adoption: number, confidence: number, factual: number, honesty: number, logical: number, relevance: number}} SelfEval */
/** @typedef {{role: string, parts: string[], contextId: string | null, messageId: string | null, selfEval: SelfEval | null}} Message parts are texts */
/** @typedef {{from: string, to: string, seq: number, ts: string, prev: string, payload: Message, idem: string, signature: string}} Envelope
 * prev is the hash of the previous envelope of the chain, or ZERO_HASH; the signature is empty if unsigned */
/** @typedef {{vacantId: string, capabilityText: string, allowedSubstrates: string[], policy: JSONObject | null, haloVersion: number, endpoint: string, signature: string}} Card
 * null is the empty policy; the endpoint is empty if the card has none */
/** @typedef {{type: string, actor: string, payload: string, key: string, time: number, actorSeq: number, signature: string}} RegistryEvent
 * the payload is the JSON text whose hash is signed, the key the idempotency key, the time in Unix milliseconds */
/** A refusal. The code is not_json, malformed, too_large, refused or untrusted. */
export class VacantError extends Error {
    /** @param {"not_json" | "malformed" | "too_large" | "refused" | "untrusted"} code @param {string} message */
    constructor(code: "not_json" | "malformed" | "too_large" | "refused" | "untrusted", message: string);
    code: "not_json" | "malformed" | "too_large" | "refused" | "untrusted";
}
export function toHex(bytes: Uint8Array): string;
/** Bounds of a request. @type {Readonly<Limits>} */
export const LIMITS: Readonly<Limits>;
/** Bounds of an answer. @type {Readonly<Limits>} */
export const ANSWER_LIMITS: Readonly<Limits>;
/** A number as it was written: 1 and 1.0 have different hashes. */
export class JSONNumber {
    /** @param {string} literal a number of JSON within float64 if it is a float */
    constructor(literal: string);
    literal: string;
    /** Reports whether the literal has a point or an exponent. */
    float: boolean;
    /** The nearest float64. */
    get value(): number;
    /** The literal in canonical form. */
    get canonical(): string;
}
export function canonical(value: any): string;
export function canonicalASCII(value: any): string;
export function now(ms?: number): string;
export function canonicalTime(text: string): string;
export function hash(data: Uint8Array | string): string;
/** The hash of no envelope. */
export const ZERO_HASH: string;
export function parseID(text: string): string;
export function parseHash(text: string): string;
export function shortID(id: string): string;
export function toBase64(bytes: Uint8Array): string;
/** The text of a chain reset. */
export const RESET_TEXT: "RESET_CHAIN";
export function envelopeBytes(e: Envelope): Bytes;
export function envelopeHash(e: Envelope): string;
export function verifyEnvelope(e: Envelope, id?: string): Promise<boolean>;
export function textOf(e: Envelope): string;
export function replyKey(request: string): string;
export function isReset(e: Envelope): boolean;
export function cardHash(c: Card): string;
export function verifyCard(c: Card): Promise<boolean>;
export function eventHash(e: RegistryEvent, prev: string): string;
export function verifyEvent(e: RegistryEvent): Promise<boolean>;
export type ReadRequest = {
    authority: string;
    method: string;
    target: string;
    body?: Uint8Array;
};
export type Bytes = Uint8Array<ArrayBuffer>;
export type Value = null | boolean | string | JSONNumber | JSONArray | JSONObject;
export type JSONArray = Value[];
export type JSONObject = Map<string, Value>;
export type Limits = {
    bytes: number;
    depth: number;
    keys: number;
};
export type Signer = {
    id: string;
    key: CryptoKey;
};
export type SelfEval = {
    adoption: number;
    confidence: number;
    factual: number;
    honesty: number;
    logical: number;
    relevance: number;
};
/**
 * parts are texts
 */
export type Message = {
    role: string;
    parts: string[];
    contextId: string | null;
    messageId: string | null;
    selfEval: SelfEval | null;
};
/**
 * prev is the hash of the previous envelope of the chain, or ZERO_HASH; the signature is empty if unsigned
 */
export type Envelope = {
    from: string;
    to: string;
    seq: number;
    ts: string;
    prev: string;
    payload: Message;
    idem: string;
    signature: string;
};
/**
 * null is the empty policy; the endpoint is empty if the card has none
 */
export type Card = {
    vacantId: string;
    capabilityText: string;
    allowedSubstrates: string[];
    policy: JSONObject | null;
    haloVersion: number;
    endpoint: string;
    signature: string;
};
/**
 * the payload is the JSON text whose hash is signed, the key the idempotency key, the time in Unix milliseconds
 */
export type RegistryEvent = {
    type: string;
    actor: string;
    payload: string;
    key: string;
    time: number;
    actorSeq: number;
    signature: string;
};
