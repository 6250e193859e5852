package task

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Told is a message that a caller reports, as said before its own. The host has no record of it.
type Told struct {
	Role string // of the speaker, as the caller names it
	Text string
}

// ToldOf returns the messages that the caller of e's turn reports, the oldest
// first. ok is false for a turn whose caller reports none, which has the vacant's memory instead.
func ToldOf(ctx context.Context, e *envelope.Envelope) (told []Told, ok bool) {
	m, _ := ctx.Value(messagesKey{}).(messages)
	if !m.isOf(e) {
		return nil, false
	}
	return m.told, m.told != nil
}
