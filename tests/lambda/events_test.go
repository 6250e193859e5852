//go:build unix

package lambda

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

var update = flag.Bool("update", false, "write the sample events anew")

// samplesDir holds the sample events, for people and for these tests.
var samplesDir = filepath.Join("..", "..", "events")

// signedAt is when the samples are signed: long ago, so that no clock takes
// them for the future.
var signedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// key is the key of a seed of n, 32 times.
func key(n byte) *identity.Key {
	k, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		panic(err) // 32 bytes are a seed
	}
	return k
}

// The samples' caller has the seed 01…01, their vacant 02…02.
var sampleCaller, sampleVacant = key(1), key(2)

// signedSamples are the envelopes in the samples.
func signedSamples() (first, second, reset *envelope.Envelope) {
	c := &caller.Caller{Key: sampleCaller, To: sampleVacant.ID()}
	first = c.Call("hello", signedAt)
	c.Accepted(first)
	second = c.Call("grüß dich", signedAt.Add(time.Second))
	return first, second, c.Reset(signedAt.Add(2 * time.Second))
}

// samples are the sample events by file name. Ed25519 signs alike every time,
// so they can be made again to the byte.
func samples() map[string]Event {
	first, second, reset := signedSamples()
	at := "/v/" + sampleVacant.ID().String()
	browser := NewEvent(at+caller.SendPath+"?trace=1&trace=2", caller.Body(second))
	browser.Cookies = []string{"session=abc", "theme=dark; Secure"}
	browser.Headers["accept"] = "application/json, text/plain;q=0.9, */*;q=0.1"
	browser.Headers["x-forwarded-for"] = "192.0.2.1, 198.51.100.7"
	forged := NewEvent(caller.SendPath, []byte(strings.Replace(string(caller.Body(first)), "hello", "hullo", 1)))
	text := NewEvent(caller.SendPath, []byte("hello"))
	text.Headers["content-type"] = "text/plain"
	return map[string]Event{
		"message-send.json":         NewEvent(caller.SendPath, caller.Body(first)),
		"message-send-browser.json": browser.Base64(),
		"message-send-forged.json":  forged,
		"message-send-text.json":    text,
		"message-ask.json":          NewEvent(caller.AskPath, caller.Body(first)),
		"message-reset.json":        NewEvent(caller.ResetPath, caller.Body(reset)),
		"message-card.json":         NewEvent(at+"/card", nil),
		"message-health.json":       NewEvent("/health?vacant="+sampleVacant.ID().String(), nil),
		"message-control.json":      NewEvent("/v1/vacants", []byte(`{"name":"intruder"}`)),
		"message-wrong-path.json":   NewEvent("/a2a/message/sent", caller.Body(first)),
	}
}

// sample reads a sample event as it lies in the folder.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(samplesDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSampleEventsAreThoseOfTheFixedSeeds(t *testing.T) {
	want := samples()
	for name, event := range want {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(event); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(samplesDir, name), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(b.String(), string(sample(t, name))); diff != "" {
			t.Errorf("%s (-made +there); -update writes it:\n%s", name, diff)
		}
	}
	there, err := filepath.Glob(filepath.Join(samplesDir, "*.json"))
	if err != nil || len(there) != len(want) {
		t.Errorf("%d files in events, %v; want %d", len(there), err, len(want))
	}
}
