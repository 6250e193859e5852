package call_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// A call that could only be voided is not accepted. If it is sent again with more time, it runs.
func TestACallWithTooLittleTimeLeftIsNotAccepted(t *testing.T) {
	vacant, caller := newKey(t), newKey(t)
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New()
	host := call.New(call.Config{
		Store: s, Texts: textkeys.New(s, vault, time.Now, rand.Reader, 0), Now: time.Now, Rand: rand.Reader, ReplyMargin: 10 * time.Second,
		Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant},
	})
	e := envelope.Envelope{From: caller.ID(), To: vacant.ID(), Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}}
	if _, err := e.Sign(t.Context(), caller); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if o := host.Send(short, identity.ID{}, &e); !problem.Is(o.Problem, problem.Unavailable) {
		t.Errorf("Send() with less time than the margin = %v, want unavailable", o.Problem)
	}
	if row, err := s.Tip(t.Context(), call.Pair{Caller: e.From, Vacant: e.To}.Requests()); err != nil || row.Position != 0 {
		t.Errorf("rows after it = %d, %v, want none", row.Position, err)
	}
	if o := host.Send(t.Context(), identity.ID{}, &e); o.Problem != nil || o.Reply == nil {
		t.Errorf("Send() of the same bytes with time = %v, want its answer", o.Problem)
	}
}
