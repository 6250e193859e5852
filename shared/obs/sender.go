package obs

import "context"

// Sender is the party whose request or background work a log line is about. Lines about the host
// itself have no Sender.
type Sender struct {
	ID    string // address, or another string that distinguishes senders
	Guest bool   // true if the request has no credential
}

type senderKey struct{}

func WithSender(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

func SenderOf(ctx context.Context) (s Sender, ok bool) {
	s, ok = ctx.Value(senderKey{}).(Sender)
	return s, ok
}
