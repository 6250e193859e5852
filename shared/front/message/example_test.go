package message_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// shout is a behaviour: it answers one accepted envelope.
func shout(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
	return envelope.Message{Parts: []string{strings.ToUpper(e.Payload.Text())}}, nil
}

// host serves one vacant whose behaviour is a Go function.
func host(key *identity.Key) (http.Handler, error) {
	store := memory.New() // bolt.Open for one that lasts
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		return nil, err
	}
	pipeline := call.New(call.Config{
		Store:     store,
		Directory: call.SingleVacant{ID: key.ID(), State: lifecycle.Active, Behaviour: shout, Signer: key},
		Texts:     textkeys.New(store, vault, time.Now, rand.Reader, 24*time.Hour),
		Self:      func(context.Context) (identity.ID, error) { return key.ID(), nil },
		Now:       time.Now,
		Rand:      rand.Reader,
	})
	return message.Handler(message.Config{Host: pipeline, Log: slog.New(slog.DiscardHandler), Now: time.Now}), nil
}

// A program of its own hosts a vacant: a key, a behaviour, a handler.
func Example() {
	ctx := context.Background()
	vacant, _ := identity.NewKey(rand.Reader)
	caller, _ := identity.NewKey(rand.Reader)
	handler, err := host(vacant)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	call := envelope.Envelope{From: caller.ID(), To: vacant.ID(), Seq: 1, Time: time.Now().UTC(),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}}
	if _, err := call.Sign(ctx, caller); err != nil {
		fmt.Println(err)
		return
	}
	body := string(envelope.AppendRequest(nil, nil, &call))
	res, err := http.Post(server.URL+message.SendPath, "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := envelope.DecodeResponse(answer)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, signed := reply.VerifyBy(vacant.ID())
	fmt.Println(reply.Payload.Text(), signed)
	// Output: HELLO true
}
