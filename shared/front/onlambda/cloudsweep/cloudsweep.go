// Package cloudsweep is functions/sweeper, the periodic maintenance of a stage: overdue calls,
// overdue bookings and expired text keys.
//
// The invariant: the failure of one part does not stop the others.
package cloudsweep

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
)

// Run voids overdue calls, sends overdue bookings to the worker, and destroys expired text
// keys. It ignores the event and does not return.
func Run() {
	onlambda.Run(functions.Sweeper, func(env *onlambda.Env) onlambda.Work {
		tasks := sqs.New(sqs.Config{Client: sqs.NewClient(env.AWS), URL: env.Tasks, Log: env.Log, Now: time.Now})
		bookings := env.Server.OpenBookings(tasks, nil)
		return func(ctx context.Context, _ json.RawMessage) ([]slog.Attr, error) {
			calls, callsErr := env.Server.Billing.Sweep(ctx, env.Server.Calls)
			due, bookingsErr := bookings.SendDue(ctx)
			days, daysErr := env.Server.Maintain(ctx)
			attrs := []slog.Attr{slog.Int("days", days), slog.Int("decided", calls.Decided), slog.Int("waiting", calls.Waiting), slog.Int("bookings", due.Waiting)}
			if leap := new(textkeys.LeapError); errors.As(daysErr, &leap) {
				// A stage without calls is no failure.
				attrs, daysErr = append(attrs, slog.String("kept", leap.Error())), nil
			}
			return attrs, errors.Join(callsErr, bookingsErr, daysErr)
		}
	})
}
