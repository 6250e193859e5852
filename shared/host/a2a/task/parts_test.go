package task

import (
	"encoding/json"
	"testing"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// A call that a vacant makes in the middle of a turn has neither the files of the turn nor what its
// caller reports.
func TestCallsInATurnHaveNothingOfItsMessage(t *testing.T) {
	m := Message{ID: "m1", Parts: []Part{{Kind: Text, Text: "see"}, {Kind: Raw, Raw: []byte{1}}}}
	ctx := withMessages(t.Context(), turnMessages{current: &m, first: &m, reported: []ReportedMessage{{Role: "user", Text: "before"}}})
	for id, of := range map[string]bool{"m1": true, "m2": false, "": false} {
		e := &envelope.Envelope{}
		if id != "" {
			e.Payload.MessageID = &id
		}
		if _, ok := ReportedMessagesOf(ctx, e); ok != of {
			t.Errorf("the call %q has what is reported: %v", id, ok)
		}
		if parts := NonTextPartsOf(ctx, e); len(parts) == 1 != of {
			t.Errorf("the call %q has %d files", id, len(parts))
		}
	}
}

// A note names a part of any form in one line, and the bytes as they are stored.
func TestNotesNameParts(t *testing.T) {
	stored := Part{Kind: Data, Data: json.RawMessage(`{"a":1}`)}
	for want, p := range map[string]Part{
		"hi": {Kind: Text, Text: "hi"},
		"[file, application/octet-stream, 0 bytes, sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855]":   {Kind: Raw},
		"[file \"a\\n]\\u202e\", image/png, 1 bytes, sha256 4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a]": {Kind: Raw, Raw: []byte{1}, Filename: "a\n]\u202e", MediaType: "Image/PNG;q=1"},
		"[file, at \"https://example.com/\"]": {Kind: URL, Text: "https://example.com/"},
		stored.SignedText():                   {Kind: Data, Data: json.RawMessage("{ \"a\" :\n1 }")},
	} {
		if got := p.SignedText(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
