// Package bundle writes the export file of an identity, which contains its unencrypted key.
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

type Bundle struct {
	Name string
	Key  *identity.Key
	Card []byte // may be nil
	// Manifest names the parent. It may be nil.
	Manifest []byte
	Agent    []byte // nil for the default agent
	Logbook  []logbook.Entry
	Chains   []Chain
}

type Chain struct {
	Target identity.ID
	State  []byte
}

func (b Bundle) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "bundle of "+b.Name) }

// AppendJSON appends the bundle as JSON. The caller must overwrite the bytes after use, because
// they contain the key.
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
	// Growing the slice would leave a copy of the seed in memory.
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
