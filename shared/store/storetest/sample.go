package storetest

import "testing"

// FatesOf lists the failures to prove of a store call. To a read, Lost, Unheard
// and Late are the same.
func FatesOf(op string) []Fate {
	if op != "Commit" {
		return []Fate{Lost}
	}
	return []Fate{Lost, Unheard, Late, Twice}
}

// Sampled reports whether a run proves case n of a long series of failures: all
// of them in a deep run, one of five in a default run (-short). Five is coprime
// to the number of fates, so neighbouring calls meet different ones.
func Sampled(n int) bool { return !testing.Short() || n%5 == 0 }
