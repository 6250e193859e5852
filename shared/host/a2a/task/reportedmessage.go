package task

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// ReportedMessage is an earlier message that a caller reports and the host does not have.
type ReportedMessage struct {
	Role string // caller's name for the speaker
	Text string
}

// ReportedMessagesOf returns the messages that the caller of e's turn reports, oldest first.
func ReportedMessagesOf(ctx context.Context, e *envelope.Envelope) (reported []ReportedMessage, ok bool) {
	m, _ := ctx.Value(messagesKey{}).(turnMessages)
	if !m.belongsTo(e) {
		return nil, false
	}
	return m.reported, m.reported != nil
}
