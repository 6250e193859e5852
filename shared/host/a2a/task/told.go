package task

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Told is an earlier message that a caller reports. The host has no record of it.
type Told struct {
	Role string // speaker in the words of the caller
	Text string
}

// ToldOf returns the earlier messages that the caller of e's turn reports, oldest first. If the
// caller reports no messages, ok is false and the turn uses the vacant's memory.
func ToldOf(ctx context.Context, e *envelope.Envelope) (told []Told, ok bool) {
	m, _ := ctx.Value(messagesKey{}).(messages)
	if !m.isOf(e) {
		return nil, false
	}
	return m.told, m.told != nil
}
