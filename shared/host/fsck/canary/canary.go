// Package canary writes rows whose only purpose is to be seen: the tamper
// detector tells of each, so an alarm notices if it sees nothing any more.
package canary

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Kind is the kind of the stream of canaries, of which a host has one.
const Kind = "can"

// Stream is the stream of canaries.
func Stream() store.Stream { return store.StreamOf(Kind, identity.ID{}) }

// Write appends a canary.
func Write(ctx context.Context, s store.Store, now time.Time, rand io.Reader) error {
	return store.Problem(store.Updater{Store: s, Rand: rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		tip, err := s.Tip(ctx, Stream())
		if err == nil {
			tx.Append(Stream(), tip.Position+1, binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())))
		}
		return err
	}))
}

// Check refuses a row that is not a canary. The error is of kind Damaged.
func Check(row store.Row) error {
	if len(row.Data) != 8 {
		return problem.New(problem.Damaged, "row %d of %s: expected 8 bytes, got %d", row.Position, Kind, len(row.Data))
	}
	return nil
}
