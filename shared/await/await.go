// Package await is how tests wait for what another goroutine, process or service does.
//
// The invariant: a wait ends by what it waits for. Its limit only guards against hanging,
// so it says nothing about how fast a machine is.
package await

import (
	"testing"
	"time"
)

// Limit is the longest time that a test waits for one thing. It is ten times what one busy
// core needs for a deployment, which is the slowest of these things.
const Limit = 40 * time.Minute

// Times between two looks of Until.
const (
	firstPause = time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Until calls done until it returns true. It ends the test if that takes longer than
// Limit. what is a sentence about what is waited for.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	pause := firstPause
	for end := time.Now().Add(Limit); !done(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain: %s", Limit, what)
		}
		pause = min(2*pause, maxPause)
	}
}
