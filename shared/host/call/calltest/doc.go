// Package calltest is the contract of host/call as a test suite: every defect that model checking
// found, every fault of the store and every race is a named test with its trace, for any
// store.Store.
//
// After each test, the suite checks that the rows of the pair are two chains without gap or fork,
// and that no request is decided twice (CheckStreams).
//
// # How a test reads
//
// A scene has two hosts with one store, a caller's key, a vacant's key, and a clock that advances
// only on request. A test signs envelopes, sends them to one of the hosts, and prepares the fate of
// single store calls in advance:
//
//	s.store.Next("Commit rsp", Unacked)   // the next answer is written, but the host gets an error
//	out := s.send(s.a, e)
package calltest
