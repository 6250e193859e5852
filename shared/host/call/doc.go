// Package call is the call pipeline, the only place where a hosted vacant
// answers. Every protocol handler translates its requests and calls Send, Ask
// or Reset.
//
// The invariants: an envelope is accepted at most once and run at most once. A
// request is decided at most once, by an answer or a void. An answer is sent
// only after its row is stored. They hold under crashes, races, wrong clocks
// and lost acknowledgements, because one conditional write of the next position
// decides.
//
// # The life of a message
//
//  1. front/message reads at most 256 KiB and decodes strictly (envelope.DecodeRequest).
//  2. Send rebuilds the signing bytes, hashes them and verifies the signature (verifyAndFetch).
//  3. It reads the vacant's record, both tips of the pair and the key of the day, or takes them from its caches (fetch, tipCache).
//     A closed child looks like a vacant that is not hosted to callers outside its tree (checkRelated, concealed).
//     Unless the envelope is forged, it makes the vacant's signer ready (fetchVacant).
//  4. It refuses envelopes that are misdirected, forged, signed by a revoked key, from the future, not admitted, out of order, or for a vacant that is asleep or unpaid (checkEnvelope, decide).
//  5. It seals the text and appends the request row after the tip (appendRequest): now the call is accepted.
//     If nothing was read for the call, revocation is checked concurrently with this write; a revoked call is voided before it runs (appendChecked).
//  6. If another writer took the position, it reads again and decides again (accept). If the outcome is unknown, it repeats the same bytes at the same position (commit).
//  7. The behaviour runs once, under a deadline (behave). Its calls of other vacants are requests of their own, with the limits of the first (walk.go).
//  8. The answer is bound to the request, signed and appended to the response stream (answer). A failure appends a void (void).
//     Answers of vacants with kin are recorded as evidence for the gate (observe).
//  9. Then the reply is sent: Outcome, rendered by front/message.
//     A caller that cancels while it can read pieces of the answer has them for its answer (Cut): signed, charged, and marked.
//  10. A resend of the same bytes finds its row (lookup) and its outcome (outcomeOf): the stored answer, pending, or unanswered.
//
// # Crashes
//
// A crash before step 5 leaves nothing. A crash between 5 and 8 leaves an
// undecided request: until it is due, a resend reads `pending`; afterwards a
// resend, an ask or the sweeper (ResolveOverdue) voids it. A crash after 8
// loses only the reply; a resend returns it.
package call
