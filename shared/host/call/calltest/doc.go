// Package calltest is the contract of host/call, executable: every hole of the
// model, every fault of the store, every race that the design speaks of, each a
// named test with its trace, for any store.Store.
//
// The invariant it checks after each test: the rows of the pair are two chains
// without gap or fork, and no request is decided twice (CheckStreams).
//
// # How a test reads
//
// A scene has two hosts over one store, a caller's key and a vacant's key, and a clock that
// only moves when told to. A test signs envelopes, sends them to one host or the other, and
// sets beforehand the fate of single calls to the store:
//
//	s.store.Next("Commit rsp", Unacked)   // the next answer is written, the host hears an error
//	out := s.hosts[0].Send(…)
package calltest
