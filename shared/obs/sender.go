package obs

import "context"

type Sender struct {
	ID    string // address, or another string that distinguishes senders
	Guest bool
}

type senderKey struct{}

func WithSender(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

func SenderOf(ctx context.Context) (s Sender, ok bool) {
	s, ok = ctx.Value(senderKey{}).(Sender)
	return s, ok
}
