// Package call is the call pipeline, through which all hosted vacants answer. Send handles a signed
// message. Package task signs for callers of other protocols, and calls AcceptForRun and Run, or
// AcceptForResume and Resume for background turns.
//
// A call is accepted by a request row, runs at most once, and is decided at most once by an answer
// or a void. An answer is sent only after its row is stored. These invariants hold under crashes,
// races and wrong clocks, because each row is one conditional write at the next position of a
// stream. If the process dies after the accept, a resend, Ask or the sweeper voids the call when it
// is due.
//
// # Terms
//
// A pair is a caller and a called vacant, with a stream of requests and a stream of responses. Its
// tips are the last rows of these streams. A reset is a signed request that begins a new epoch, in
// which sequence numbers start at 1 again. A floor is a time after which new envelopes must be
// signed. A hold is the maximum charge of a call, which is debited with the accept. The kin of a
// vacant are its parent, siblings and children. A walk is a request with all calls that vacants
// make to answer it.
package call
