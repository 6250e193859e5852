// Package calltest tests the contract of host/call with any store.Store. It has a named test for
// every defect that model checking found, every fault of the store and every race.
//
// After each test, the suite checks that the rows of the pair are two chains without gaps or forks,
// and that no request is decided twice ([CheckStreams]).
//
// # Structure of a test
//
// A scene has two hosts with one store, a caller's key, a vacant's key, and a clock that advances
// only on request. A test signs envelopes, sends them to one of the hosts, and prepares the outcome
// of single store calls in advance:
//
//	s.store.PrepareNext("Commit rsp", LoseAck) // the next answer is written, but the host gets an error
//	out := s.send(s.hostA, e)
package calltest
