// Package dispatch is the calling side: it signs an envelope, keeps it, posts
// it, verifies the answer and settles the call (PROTOCOL §16).
//
// A Caller calls whom it is told to. A Client finds vacants at registries by
// what they can do, chooses one and calls it through a Caller: what programs
// import.
//
// The invariants: nothing leaves before it is kept; every envelope that was
// ever signed for a place in the chain stays listed until its fate is known,
// and is never sent again once another took its place; an answer is believed
// only when the target signed it for this caller, for this request, at the next
// place of the response chain; a registry is asked and never believed: it sees
// no message and no caller, each of its matches is verified before it counts,
// and no question goes to a second vacant while the first may have accepted it.
//
// # The life of a call
//
//  1. Call locks the pair (Book.Open) and loads where it stands (State).
//  2. An unfinished reset is finished, listed envelopes are asked for (settleOld).
//  3. The message takes the next place of the chain, or is recognised as the one already under way (take, sign).
//  4. The state with the signed envelope is saved. Only then is it posted (send).
//  5. What comes back is read without trust (readAnswer) and judged (judge): one row of the table "Our caller" each.
//  6. An answer is verified in the order of PROTOCOL §16 (verify), the call settled, the state saved.
//
// A crash after 4 leaves the signed bytes: the same call again sends the same
// bytes and gets the same answer. A crash before it leaves nothing.
package dispatch
