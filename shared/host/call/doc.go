// Package call is the pipeline: the one place where a hosted vacant answers.
// Every door translates, then calls Send, Ask or Reset here.
//
// It imports floors 1 and 3, the text keys beside it, and problem. The
// invariants: an envelope is accepted at most once and run at most once; a
// request is decided at most once, by an answer or a void; an answer leaves
// only after its row; and all of it holds whatever crashes, races, clocks and
// lost acknowledgements do, because one conditional write of the next position
// decides, and nothing else.
//
// # The life of a message
//
//  1. front/message reads at most 256 KiB and decodes strictly (envelope.DecodeRequest).
//  2. Send rebuilds the signing bytes, hashes them and verifies the signature (open).
//  3. It fetches the vacant's record, both tips of the pair and the key of the day, or remembers them (fetch, views).
//     A closed child is not there for whom it does not admit (admit, hidden).
//     Then it makes the vacant's signer ready, unless the envelope is forged (vacant).
//  4. It refuses what is misdirected, forged, signed by a revoked key (barred), from the future, not admitted, asleep, unpaid or out of order (admissible, refusal).
//  5. It seals the text and puts the request row at the position after the tip (take): now it is accepted.
//     If nothing had to be read for it, whether the keys are good is read beside; if they are not, it is void (claim).
//  6. If somebody else has that position it reads again and decides again (accept); if the outcome is unknown it repeats the same bytes there (settle).
//  7. The behaviour runs, once, under a deadline (behave).
//  8. The answer is bound to the request, signed and put on the response stream (answer); a failure puts a void there (void).
//     Whoever gathers evidence for the gate is told beside (observe).
//  9. Only then does the reply go out: Outcome, rendered by front/message.
//  10. Sent again, the same bytes find their row (find) and what was decided (tell): the stored answer, pending, or unanswered.
//
// # What a row survives
//
// A crash before 5 leaves nothing. A crash between 5 and 8 leaves an undecided
// request: until it is due a resend reads `pending`, afterwards the resend, an
// ask or the sweeper (Settle) voids it. A crash after 8 loses only the reply
// on its way; a resend gets it.
package call
