package task

import "context"

// Told is a message that a caller reports, as said before its own. The host has no record of it.
type Told struct {
	Role string // of the speaker, as the caller names it
	Text string
}

// ToldOf returns the messages that the caller of the turn that ctx belongs to reports, the oldest
// first. ok is false for a turn whose caller reports none, which has the vacant's memory instead.
func ToldOf(ctx context.Context) (told []Told, ok bool) {
	m, _ := ctx.Value(messagesKey{}).(messages)
	return m.told, m.told != nil
}
