package obs

import "context"

// Sender is the party whose request, or whose work in the background, a log line is about.
type Sender struct {
	ID    string // its address, or another text that tells senders apart
	Guest bool   // the request has no credential
}

type senderKey struct{}

// WithSender returns a context for the log lines of a sender.
func WithSender(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

// SenderOf returns the sender of a context. ok is false for the lines of the host itself.
func SenderOf(ctx context.Context) (s Sender, ok bool) {
	s, ok = ctx.Value(senderKey{}).(Sender)
	return s, ok
}
