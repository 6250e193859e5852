// Package simulation runs the real call pipeline and the real client through
// thousands of random schedules with every fault of the design's model, and
// checks the model's invariants over the resulting rows.
//
// The package has tests only. They drive host/call behind its handler,
// host/client/dispatch, and the store in memory.
//
// # How a run goes
//
// A world (world_test.go) is two hosts over one store, one to three callers, an
// attacker and a sweeper. They run in goroutines of a synctest bubble, but only
// one runs at a time: at every store call, behaviour, message and pause of a
// caller, the goroutine stops and waits for the scheduler (schedule_test.go),
// which chooses the next goroutine and the next fault. The choices come from
// one seed, so a run can be repeated.
//
//   - hosts_test.go     instances, outcomes of store calls, behaviours
//   - network_test.go   requests and replies: lost, doubled, out of order; the attacker
//   - callers_test.go   our client, with its book, crashes and restarts
//   - reference_test.go the reference's client
//   - invariants_test.go what must hold, during a run and after it
//   - mutants_test.go   deliberately broken rules, each of which must be detected
//
// After the last choice faults stop, everything in progress ends, and each caller makes
// one more call with nothing beside it, which must succeed.
//
//	go test ./tests/simulation                     20,000 schedules
//	go test ./tests/simulation -schedules 1000000  more schedules
//	go test ./tests/simulation -seed 4711 -v       one schedule, with its trace
package simulation
