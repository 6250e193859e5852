/**
 * Verifies that an event is in a log, and throws if it is not proved.
 * @param {Checkpoint} log @param {number} seq of the event, from 1 @param {string} event its hash
 * @param {string[]} proof hashes in hex, from the leaf upward @returns {Promise<void>}
 */
export function verifyInclusion(log: Checkpoint, seq: number, event: string, proof: string[]): Promise<void>;
/**
 * Verifies that one log begins with another, and throws if it is not proved.
 * @param {Checkpoint} from @param {Checkpoint} to @param {string[]} proof hashes in hex @returns {Promise<void>}
 */
export function verifyConsistency(from: Checkpoint, to: Checkpoint, proof: string[]): Promise<void>;
/** @param {Checkpoint} c @returns {string} the signed text, three lines */
export function checkpointText(c: Checkpoint): string;
/** @param {string} text @returns {Checkpoint} of its one canonical text */
export function parseCheckpoint(text: string): Checkpoint;
/**
 * Opens a checkpoint with its signatures without trust in the host, and throws if it does
 * not verify: the host that the text names must have signed it, and no cosignature of a
 * vacant or a known witness may be wrong. Other cosignatures are ignored.
 * @param {string} note @param {KnownWitness[]} [known] @returns {Promise<Checkpoint & {text: string, cosignatures: Cosignature[]}>}
 */
export function openCheckpoint(note: string, known?: KnownWitness[]): Promise<Checkpoint & {
    text: string;
    cosignatures: Cosignature[];
}>;
/** @param {string[]} events hashes @returns {string} the root of an epoch, padded to a power of two with the last leaf */
export function epochRoot(events: string[]): string;
/** @typedef {import("./vacant.js").Bytes} Bytes */
/** @typedef {{host: string, size: number, root: string}} Checkpoint the root is hex */
/** @typedef {{name: string, witness: string, time: number}} Cosignature witness is empty for a known key; time is Unix seconds */
/** @typedef {{name: string, id: string}} KnownWitness */
/** The largest note in bytes. */
export const MAX_NOTE: number;
export function leafHash(eventHash: string): Promise<Bytes>;
export function nodeHash(left: Uint8Array, right: Uint8Array): Promise<Bytes>;
export function epochBytes(root: string): Bytes;
export type Bytes = import("./vacant.js").Bytes;
/**
 * the root is hex
 */
export type Checkpoint = {
    host: string;
    size: number;
    root: string;
};
/**
 * witness is empty for a known key; time is Unix seconds
 */
export type Cosignature = {
    name: string;
    witness: string;
    time: number;
};
export type KnownWitness = {
    name: string;
    id: string;
};
