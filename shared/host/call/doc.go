// Package call is the call pipeline, in which all hosted vacants answer. Handlers of signed
// messages call SendWith, Ask and ResetWith. Handlers of other protocols use package task, which
// signs the messages of their callers and calls Begin and Run, or Accept and Resume for turns in
// the background.
//
// An envelope is accepted at most once and run at most once. An answer or a void decides a
// request, and at most once. An answer is sent only after its row is stored. Each decision is one
// conditional write at the next position of a stream, so that these invariants hold under crashes,
// races, wrong clocks and lost acknowledgements.
//
// # The life of a message
//
//  1. front/message reads at most 256 KiB and decodes strictly (envelope.DecodeRequest).
//  2. Send rebuilds the signed bytes, hashes them and verifies the signature (verifyAndFetch).
//  3. It reads the vacant's record, both tips of the pair and the text key of the day, or takes
//     them from caches (fetch, tipCache). For callers outside its tree, a closed child looks like a
//     vacant that is not hosted (related, concealed). Unless the envelope is forged, Send also
//     makes the vacant's signer ready (fetchVacant).
//  4. It refuses envelopes that are misdirected, forged, signed by a revoked key, from the future,
//     not admitted, out of order, or for a vacant that is asleep or unpaid (checkEnvelope, decide).
//  5. It seals the text and appends the request row after the tip (appendRequest). This row
//     accepts the call. If the decision used only cached data, revocation is checked
//     concurrently with the write, and a revoked call is voided before it runs (appendChecked).
//  6. If another writer took the position, it reads and decides again (accept). If the outcome is
//     unknown, it repeats the same write at the same position (commit).
//  7. The behaviour runs once, under a deadline (behave). Its calls of other vacants are separate
//     requests, with the limits of the first (walk.go).
//  8. The answer is bound to the request, signed and appended to the response stream (answer). A
//     failure appends a void (void). Answers of vacants with kin are recorded as evidence for the
//     gate (observe).
//  9. Then the reply is sent: front/message renders the Outcome. If a caller that can read pieces
//     of the answer cancels the call, these pieces become the answer (Cut), which is signed,
//     charged and marked.
//  10. For a resend of the same bytes, Send finds the row (lookup) and its outcome (outcomeOf): the
//     stored answer, pending, or unanswered.
//
// # Crashes
//
// A crash before step 5 leaves no trace. A crash between steps 5 and 8 leaves an undecided request.
// Until the request is due, a resend returns `pending`. Afterwards a resend, an ask or the sweeper
// (ResolveOverdue) voids it. A crash after step 8 only loses the reply, and a resend returns it.
package call
