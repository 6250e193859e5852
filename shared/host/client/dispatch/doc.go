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
//  2. A pending reset is finished, listed envelopes are asked for (settleOld).
//  3. The message gets the next position of the chain, or is recognised as the call under way (take, sign).
//  4. The state with the signed envelope is saved. Only then is it posted (send).
//  5. The reply is parsed without trust (readAnswer) and judged (judge): one row of the table "Our caller" each.
//  6. An answer is verified in the order of PROTOCOL §16 (verify), the call settled, the state saved.
//
// A crash after 4 leaves the signed bytes: the same call sends the same bytes
// and gets the same answer. A crash before it leaves nothing.
package dispatch
