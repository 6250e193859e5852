// Package dispatch is the client side of calls: it signs an envelope, saves it, posts it, verifies
// the answer and settles the call (PROTOCOL §16).
//
// A Caller calls targets and stores the State of each pair of caller and target in a Book. The call
// in hand is the last call whose outcome was not returned yet. The fate of an envelope is whether
// the host accepted it and how its call ended, and a listed envelope has an unknown fate. "The
// reference" is the reference implementation of the protocol, whose hosts do not store answers.
//
// An envelope is saved before it is sent. After a crash, or an error of kind Pending, Unavailable
// or Canceled, the same call therefore sends the same bytes and gets the same answer.
package dispatch
