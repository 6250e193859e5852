package task

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// ReportedMessage is an earlier message that a caller reports. The host has no record of it.
type ReportedMessage struct {
	Role string // speaker in the words of the caller
	Text string
}

// ReportedMessagesOf returns the earlier messages that the caller of e's turn reports, oldest
// first. If the caller reports no messages, ok is false and the turn uses the vacant's memory.
func ReportedMessagesOf(ctx context.Context, e *envelope.Envelope) (reported []ReportedMessage, ok bool) {
	m, _ := ctx.Value(messagesKey{}).(turnMessages)
	if !m.belongsTo(e) {
		return nil, false
	}
	return m.reported, m.reported != nil
}
