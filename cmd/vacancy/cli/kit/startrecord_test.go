package kit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheHintForAStoppedHostNamesTheCommandThatServedIt(t *testing.T) {
	a := &App{startCommand: programName}
	dir := t.TempDir()
	for stored, want := range map[string]string{
		"":                           "vacancy dev --data " + dir,
		"{":                          "vacancy dev --data " + dir,
		`{"dir":"/","args":["dev"]}`: "vacancy dev --data " + dir, // by an earlier program
		`{"dir":"/","args":["dev"],"served":true}`: "vacancy serve --data " + dir + ", with the flags of its last start",
	} {
		must(t, os.WriteFile(filepath.Join(dir, startRecordFile), []byte(stored), 0o600))
		if got := a.StartHint(dir); got != want {
			t.Errorf("with %q in %s: StartHint() = %q, want %q", stored, startRecordFile, got, want)
		}
	}
}

func TestServeIsRecordedOnce(t *testing.T) {
	dir := t.TempDir()
	if err := MarkServed(dir); err != nil || !HasServed(dir) {
		t.Errorf("MarkServed() = %v, HasServed() = %t", err, HasServed(dir))
	}
	const earlier = `{"served":true,"by":"an earlier start"}`
	must(t, os.WriteFile(filepath.Join(dir, startRecordFile), []byte(earlier), 0o600))
	must(t, MarkServed(dir))
	if b, err := os.ReadFile(filepath.Join(dir, startRecordFile)); err != nil || string(b) != earlier {
		t.Errorf("after another start %s has %q, %v", startRecordFile, b, err)
	}
}
