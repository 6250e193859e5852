// Package simulation runs the real call pipeline and the real caller against
// everything that the design's model throws at them, thousands of times, and
// checks the model's invariants over the rows that are left.
//
// It has tests only, and imports what they drive: host/call behind its handler,
// host/client/dispatch, the store in memory.
//
// # How a run goes
//
// A world (world_test.go) is two hosts over one store, one to three callers, an
// attacker and a sweeper. All of it runs in goroutines of a synctest bubble, but
// only one moves at a time: every call to the store, every behaviour, every
// message, every pause of a caller is a point where it stops and waits for the
// scheduler (schedule_test.go), which picks what moves next and what goes wrong
// there. Its picks come from one seed, so a run can be repeated.
//
//   - hosts_test.go     instances, what a call to the store can come to, behaviours
//   - network_test.go   requests and replies: lost, doubled, out of order; the attacker
//   - callers_test.go   ours, with its book, crashes and restarts
//   - reference_test.go the reference's caller
//   - invariants_test.go what must hold, during a run and after it
//   - mutants_test.go   rules broken on purpose, each of which must be found
//
// When the picks are used up, faults stop, everything under way ends, and each
// caller makes one more call alone, which must succeed.
//
//	go test ./tests/simulation                     20,000 schedules
//	go test ./tests/simulation -schedules 1000000  more of them
//	go test ./tests/simulation -seed 4711 -v       one of them, with its trace
package simulation
