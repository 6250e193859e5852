package storetest

import "testing"

// FaultsOf returns the faults to test for an operation. For reads, Lost, Unacknowledged and
// Delayed are equivalent, so FaultsOf returns only one of them.
func FaultsOf(op string) []Fault {
	if op != "Commit" {
		return []Fault{Lost}
	}
	return []Fault{Lost, Unacknowledged, Delayed, Twice}
}

// InSample reports whether a run tests case n of a long series of faults. A run with -short tests
// one of five cases, any other run tests all. Five is coprime to the number of faults of a commit,
// so that the cases of the sample cover all faults.
func InSample(n int) bool { return !testing.Short() || n%5 == 0 }
