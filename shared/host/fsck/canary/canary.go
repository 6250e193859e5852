// Package canary writes canaries, rows whose only purpose is to be detected. If the tamper detector
// stops reporting them, an alarm is raised.
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

const Kind = "can"

func Stream() store.Stream { return store.StreamOf(Kind, identity.ID{}) }

func Write(ctx context.Context, s store.Store, now time.Time, rand io.Reader) error {
	return store.AsProblem(store.Updater{Store: s, Rand: rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		tip, err := s.Tip(ctx, Stream())
		if err == nil {
			tx.Append(Stream(), tip.Position+1, binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())))
		}
		return err
	}))
}

func Check(row store.Row) error {
	if len(row.Data) != 8 {
		return problem.New(problem.Damaged, "row %d of %s: expected 8 bytes, got %d", row.Position, Kind, len(row.Data))
	}
	return nil
}
