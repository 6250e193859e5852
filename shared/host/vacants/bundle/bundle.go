// Package bundle writes the export file of an identity, which contains its unencrypted key, its
// card, manifest, agent and logbook, and the state of its calls to others.
//
// All exports have the same format. Append leaves no copy of the seed in memory except in its
// result.
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

const Format = "vacancy-export/1"

// Bundle is the content of an export.
type Bundle struct {
	Name string
	Key  *identity.Key
	Card []byte // blob of the signed card, or nil
	// Manifest is the blob of the manifest that names the parent, or nil.
	Manifest []byte
	Agent    []byte // JSON of the agent, or nil for the default agent
	Logbook  []logbook.Entry
	Chains   []Chain // one chain per target
}

// Chain contains the state of the vacant's calls to one target. State is the JSON that package
// filebook stores for a chain.
type Chain struct {
	Target identity.ID
	State  []byte
}

func (b Bundle) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "bundle of "+b.Name) }

// Append appends the bundle as one JSON object with the export time now. Each entry and chain is on
// its own line, so that people can read it. The caller must overwrite the bytes after use.
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
	// A single allocation is required, because growing the slice would leave a copy of the seed in
	// memory.
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
