package remote

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// An omission ends after an hour, so that a server which takes the member again is sent it, and there
// are at most maxOmissions.
func TestOmissionsAreForgotten(t *testing.T) {
	now := time.Unix(0, 0)
	o := NewOmissions()
	o.now = func() time.Time { return now }
	refuses := true
	ask := func(vacant int) (sent []string) {
		r := substrate.Request{Vacant: identity.ID{byte(vacant), byte(vacant >> 8)}}
		body := func(r *substrate.Request) string {
			return strings.Join(slices.DeleteFunc([]string{"model", "stream_options"}, r.Omits), " ")
		}
		_, err := Send(o, &r, substrate.Spec{Kind: substrate.KindOpenAI, Argument: "m"}, body, func(b string) (int, error) {
			if sent = append(sent, b); refuses && strings.Contains(b, "stream_options") {
				return 0, substrate.AnswerError(http.StatusBadRequest, nil, []byte("stream_options?"), substrate.StatusError(http.StatusBadRequest))
			}
			return 1, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	expect := func(what string, vacant int, want ...string) {
		t.Helper()
		if got := ask(vacant); !slices.Equal(got, want) {
			t.Errorf("%s: %q were sent, want %q", what, got, want)
		}
	}
	expect("first", 0, "model stream_options", "model")
	now = now.Add(time.Hour - time.Second)
	expect("within the hour", 0, "model")
	now = now.Add(time.Second)
	expect("after the hour", 0, "model stream_options", "model")
	refuses = false
	now = now.Add(time.Hour)
	expect("a server that takes it", 0, "model stream_options")
	refuses = true
	for vacant := range 2 * maxOmissions {
		ask(vacant)
	}
	if len(o.byModel) != maxOmissions {
		t.Errorf("%d omissions are in memory, want %d", len(o.byModel), maxOmissions)
	}
}
