// Package dispatch is the client side of calls: it signs an envelope, saves it,
// posts it, verifies the answer and settles the call (PROTOCOL §16).
//
// A Caller calls given targets. Package discovery finds the target.
//
// The invariants: an envelope is saved before it is sent. Every signed envelope
// stays listed until its fate is known, and is not sent again once another took
// its position. An answer counts only if the target signed it for this caller,
// for this request, at the next position of the response chain.
//
// # The life of a call
//
//  1. Call locks the pair (Book.Open) and loads its State.
//  2. The message is recognised as the call under way, or gets an idempotency key (begin).
//  3. A pending reset is finished (finishReset), and overtaken envelopes are asked for (settleOld).
//  4. A new message is signed for the next position of the chain (sign), and the state with the envelope is saved. Only then is the envelope posted (send).
//  5. The reply is parsed without trust (readAnswer) and judged by one row of the table of PROTOCOL §16 (judge).
//  6. An answer is verified in the order of PROTOCOL §16 (verify), the call is settled, the state is saved.
//  7. The outcome moves from the state into the result (handOver).
//
// A crash after 4 leaves the signed bytes: the same call sends the same bytes
// and gets the same answer. A crash before 4 leaves nothing, and a crash after 7
// leaves no outcome: the same call is then a new one.
package dispatch
