package cloudgate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
)

// upgradeTime limits the steps of one invocation. In the rest of the time-out, the invocation completes the
// page of documents that it has begun.
const upgradeTime = functions.HandlerSeconds * time.Second / 2

// upgrades handles functions.UpgradeEvent.
func upgrades(h *onlambda.Env) onlambda.DirectHandler {
	return func(ctx context.Context, event json.RawMessage) (any, bool, error) {
		var asked struct{ Upgrade bool }
		if json.Unmarshal(event, &asked) != nil || !asked.Upgrade {
			return nil, false, nil
		}
		now := func() time.Time { return time.Now().Round(0) }
		v, err := upgrade.Run(ctx, upgrade.Data{
			Store: h.Store, Vault: h.Vault, Texts: h.Server.Texts, Program: h.Server.Version(), Log: h.Log, Now: now, Rand: rand.Reader,
			Until: now().Add(upgradeTime),
		})
		if err != nil {
			h.Log.LogAttrs(ctx, slog.LevelError, "the documents were not upgraded", slog.String("cause", err.Error()))
			return nil, true, err
		}
		h.Log.LogAttrs(ctx, slog.LevelInfo, "documents upgraded", slog.Int("version", v.Version), slog.Int("current", upgrade.Current))
		return functions.Upgraded{Version: v.Version, Current: upgrade.Current}, true, nil
	}
}
