package storetest

import "testing"

// FatesOf lists the fates to test for an operation. For reads, Lost, Unheard and Late are
// equivalent, so only one of them is listed.
func FatesOf(op string) []Fault {
	if op != "Commit" {
		return []Fault{Lost}
	}
	return []Fault{Lost, Unacknowledged, Delayed, Twice}
}

// InSample reports whether a run tests case n of a long series of faults: all of them in a deep run,
// one of five in a default run (-short). Five is coprime to the number of fates, so that
// neighboring calls get different fates.
func InSample(n int) bool { return !testing.Short() || n%5 == 0 }
