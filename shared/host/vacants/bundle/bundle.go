// Package bundle writes the export file of an identity: its key in the clear,
// card, manifest, agent, logbook and the state of its calls to others.
//
// The invariants: there is one format, whoever writes it, and the bytes with
// the key are not copied while the file is made.
package bundle

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Format names the format.
const Format = "vacancy-export/1"

// Bundle is the content of an export.
type Bundle struct {
	Name string
	Key  *identity.Key
	Card []byte // the signed card's blob, or nil
	// Manifest is the blob of the manifest that names its parent, or nil.
	Manifest []byte
	Agent    []byte // the JSON of its agent; nil if it has one of defaults
	Logbook  []logbook.Entry
	Chains   []Chain // by target, each once
}

// Chain is the state of the calls to one target: a JSON document of the
// caller's book.
type Chain struct {
	Target identity.ID
	State  []byte
}

// Format prints the name only, whatever the verb.
func (b Bundle) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "bundle of "+b.Name) }

// Append appends the bundle as of now: one JSON object, with a line for each
// entry and chain so that a person can read it. The caller overwrites it after
// use.
func (b *Bundle) Append(dst []byte, now time.Time) []byte {
	card := b.Card
	if card == nil {
		card = []byte("null")
	}
	tail := append([]byte(",\n\"card\": "), card...)
	if b.Manifest != nil {
		tail = append(append(tail, ",\n\"manifest\": "...), b.Manifest...)
	}
	if b.Agent != nil {
		tail = append(append(tail, ",\n\"agent\": "...), b.Agent...)
	}
	tail = append(tail, ",\n\"logbook\": ["...)
	for i := range b.Logbook {
		tail = b.Logbook[i].AppendLine(appendItem(tail, i))
	}
	tail = append(tail, "\n],\n\"chains\": {"...)
	for i, c := range b.Chains {
		tail = append(fmt.Appendf(appendItem(tail, i), "%q: ", c.Target), bytes.TrimRight(c.State, "\n")...)
	}
	tail = append(tail, "\n}\n}\n"...)

	head := fmt.Appendf(nil, "{\n\"format\": %q,\n\"exported\": %q,\n\"name\": %q,\n\"id\": %q,\n\"seed_hex\": \"",
		Format, canon.FormatTime(now), b.Name, b.Key.ID())
	// Allocate once: growing would leave a copy of the seed.
	dst = append(slices.Grow(dst, len(head)+2*identity.Size+1+len(tail)), head...)
	seed := b.Key.Seed()
	defer clear(seed)
	return append(append(hex.AppendEncode(dst, seed), '"'), tail...)
}

func appendItem(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return append(dst, '\n')
}
