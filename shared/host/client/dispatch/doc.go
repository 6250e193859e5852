// Package dispatch is the client side of calls: it signs an envelope, saves it, posts it, verifies
// the answer and settles the call (PROTOCOL §16).
//
// A Caller calls given targets. Package discovery finds targets. A pair is a caller and a target.
// The call in hand of a pair is the last begun call, until its outcome is returned or it is refused
// or given up. The fate of an envelope is whether the host accepted it and how its call ended. A
// listed envelope is an envelope whose fate is not known yet. "The reference" is the reference
// implementation of the protocol, whose hosts lack some routes and do not store answers.
//
// An envelope is saved before it is sent. Every signed envelope remains listed until its fate is
// known. It is not resent after another envelope took its position. An answer is accepted only if
// the target signed it for this caller and this request, at the next position of the response
// chain.
//
// # The life of a call
//
//  1. Call locks the pair (Book.Open) and loads its State.
//  2. The message is recognized as the call in hand, or gets an idempotency key (prepareMessage).
//  3. A pending reset is finished (finishReset), and the host is asked for overtaken envelopes
//     (settleOvertaken).
//  4. A new message is signed for the next position of the chain, and the state with the envelope
//     is saved (sign). Only then is the envelope posted (send).
//  5. The reply is parsed without trust (parseReply) and judged by the table of PROTOCOL §16
//     (judge).
//  6. An answer is verified in the order of PROTOCOL §16 (verifyAnswer), the call is settled, and
//     the state is saved.
//  7. The outcome moves from the state to the result (deliverOutcome).
//
// A crash after step 4 leaves the signed bytes: the same call sends the same bytes and gets the
// same answer. A crash before step 4 leaves no trace, and a crash after step 7 leaves no outcome.
// In these two cases, the same call is a new one.
//
// # Errors
//
// After an error of kind Pending, Unavailable or Canceled, the call is under way and the same Call
// resumes it. If the chain cannot continue, the error is a StuckError, whose Remedy must precede
// another Call. Untrusted means that the reply did not verify and was ignored.
package dispatch
