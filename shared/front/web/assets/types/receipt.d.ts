/** @param {string} source the JSON of a receipt @returns {Promise<Receipt>} */
export function verifyReceipt(source: string): Promise<Receipt>;
/**
 * charge is in micro-dollars
 */
export type Receipt = {
    host: string;
    key: string;
    caller: string;
    vacant: string;
    request: string;
    reply: string;
    charge: number;
    payment: string;
};
