// Package call is the call pipeline, through which all hosted vacants answer. Handlers of signed
// messages call SendWith, Ask and ResetWith. Handlers of other protocols use package task, which
// signs the messages of their callers. Package task calls AcceptForRun and Run, or AcceptForResume
// and Resume for background turns.
//
// An envelope is accepted at most once and run at most once. A request is decided at most once,
// with an answer or a void. An answer is sent only after its row is stored. These invariants hold
// under crashes, races, wrong clocks and lost acknowledgements, because each row is one conditional
// write at the next position of a stream.
//
// # Terms
//
// A pair is a caller and a called vacant. It has a stream of requests and a stream of responses.
// The last rows of the two streams are the tips of the pair. A reset is a signed request that
// begins a new epoch of the pair. Sequence numbers start at 1 in each epoch. The messages of a
// stream form a chain: each contains the hash of the previous message in its epoch. A floor is a
// time: envelopes signed at or before the floor are refused. The floor of a chain applies to resets
// and to the first call of an epoch. The floor of a vacant applies to all new envelopes. A void is
// a row that decides a request without an answer. A hold is the maximum charge of a call, which is
// debited when the call is accepted. The kin of a vacant are its parent, siblings and children. A
// walk is a request with all calls that vacants make to answer it (walk.go).
//
// # The life of a message
//
//  1. front/message reads at most 256 KiB and decodes strictly (envelope.DecodeRequest).
//  2. Send rebuilds the signed bytes, hashes them and verifies the signature (verifyAndFetch).
//  3. Send reads the vacant's record, both tips of the pair and the text key of the day, or takes
//     them from caches (fetch, tipCache). To all callers except its parent and siblings, a closed
//     child (Vacant.IsClosedChild) looks like a vacant that is not hosted (isConcealed). Unless the
//     envelope is forged, Send also makes the vacant's signer ready (fetchVacant).
//  4. Send refuses envelopes that are misdirected, forged, signed by a revoked key, from the
//     future, not admitted, out of order, not paid for, or for a vacant that is asleep
//     (checkEnvelope, decide).
//  5. Send seals the text and appends the request row after the tip (appendRequest). This row
//     accepts the call. If the decision used only cached data, the revocation of keys is checked
//     concurrently with the write. A call with a revoked key is voided before it runs
//     (appendAndCheckRevocation).
//  6. If another writer took the position, Send reads and decides again (appendOrRefuse). If the
//     outcome is unknown, Send repeats the same write at the same position (commit).
//  7. The behaviour runs once, under a deadline (runBehaviour). Its calls of other vacants are
//     separate requests of the same walk, within the limits of the first request (walk.go).
//  8. The answer is bound to the request, signed and appended to the response stream (storeAnswer).
//     A failure appends a void (voidCall). Answers of vacants with kin are recorded as evidence for
//     graduations (startObservation).
//  9. Then the reply is sent: front/message renders the Outcome. If a caller cancels a call whose
//     answer it can read in pieces, these pieces become the answer (StorePartialAnswer). This
//     answer is signed, charged and marked as cut.
//  10. For a resend of the same bytes, Send finds the row (findResentCall) and its outcome
//     (loadOutcome): the stored answer, pending, or unanswered.
//
// # Crashes
//
// A crash before step 5 leaves no trace. A crash between steps 5 and 8 leaves an undecided request.
// Until the request is due, a resend returns `pending`. After the due time, a resend, an ask or the
// sweeper (ResolveOverdue) voids the request. After a crash that follows step 8, only the reply is
// lost, and a resend returns the stored answer.
package call
