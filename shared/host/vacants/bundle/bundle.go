// Package bundle writes the export file of an identity, which contains its unencrypted key, its
// card, manifest, agent and logbook, and the state of its calls to others.
//
// All exports have the same format. AppendJSON leaves no copy of the seed in memory except in
// its result.
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

const FormatVersion = "vacancy-export/1"

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

// AppendJSON appends the bundle as one JSON object with the export time now. Each entry and chain
// is on its own line for human readers. The caller must overwrite the bytes after use.
func (b *Bundle) AppendJSON(dst []byte, now time.Time) []byte {
	card := b.Card
	if card == nil {
		card = []byte("null")
	}
	afterSeed := append([]byte(",\n\"card\": "), card...)
	if b.Manifest != nil {
		afterSeed = append(append(afterSeed, ",\n\"manifest\": "...), b.Manifest...)
	}
	if b.Agent != nil {
		afterSeed = append(append(afterSeed, ",\n\"agent\": "...), b.Agent...)
	}
	afterSeed = append(afterSeed, ",\n\"logbook\": ["...)
	for i := range b.Logbook {
		afterSeed = b.Logbook[i].AppendLine(appendSeparator(afterSeed, i))
	}
	afterSeed = append(afterSeed, "\n],\n\"chains\": {"...)
	for i, c := range b.Chains {
		afterSeed = append(fmt.Appendf(appendSeparator(afterSeed, i), "%q: ", c.Target), bytes.TrimRight(c.State, "\n")...)
	}
	afterSeed = append(afterSeed, "\n}\n}\n"...)

	beforeSeed := fmt.Appendf(nil, "{\n\"format\": %q,\n\"exported\": %q,\n\"name\": %q,\n\"id\": %q,\n\"seed_hex\": \"",
		FormatVersion, canon.FormatTime(now), b.Name, b.Key.ID())
	// A single allocation is required, because growing the slice would leave a copy of the seed in
	// memory.
	dst = append(slices.Grow(dst, len(beforeSeed)+2*identity.Size+1+len(afterSeed)), beforeSeed...)
	seed := b.Key.Seed()
	defer clear(seed)
	return append(append(hex.AppendEncode(dst, seed), '"'), afterSeed...)
}

func appendSeparator(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return append(dst, '\n')
}
