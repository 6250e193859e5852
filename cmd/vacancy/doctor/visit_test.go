package doctor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// fakeHost is the admin API of a host with a key. lies makes it sign another
// challenge than the one asked for.
func fakeHost(t *testing.T, lies bool) *httptest.Server {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"this host has several vacants","code":"not_found"}`)
		case r.URL.Path != "/v1/admin/host":
			http.Redirect(w, r, "/v1/admin/host", http.StatusFound)
		case r.Header.Get("Authorization") != "Bearer vop_good":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"code":"unauthorized"}`)
		default:
			h := admin.Host{ID: key.ID(), KeyStorage: admin.KeyStorageSoftware}
			challenge := r.URL.Query().Get("challenge")
			if lies {
				challenge += "x"
			}
			sig, err := key.Sign(r.Context(), h.ProofBytes(challenge))
			if err != nil {
				t.Error(err)
			}
			h.Signature = hex.EncodeToString(sig)
			_ = json.NewEncoder(w).Encode(h)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestLookBelievesAHostThatProvesItself(t *testing.T) {
	honest, liar := fakeHost(t, false), fakeHost(t, true)
	look := func(d doctor.URLs) doctor.HostAnswers {
		return doctor.AskHost(t.Context(), http.DefaultClient, d, rand.Reader)
	}
	v := look(doctor.URLs{Public: honest.URL, FunctionURLs: map[string]string{"message": honest.URL}, Admin: honest.URL, Edge: true, OperatorKey: "vop_good"})
	if v.Health.Status != 404 || v.Health.Code != "not_found" || v.Operator.Status != 200 || !v.IdentityProved || v.DirectAnswers["message"].Status != 404 {
		t.Errorf("AskHost() at an honest host = %+v", v)
	}
	if v := look(doctor.URLs{Public: liar.URL, Admin: liar.URL, OperatorKey: "vop_good"}); v.IdentityProved || v.Operator.Status != 200 || len(v.DirectAnswers) != 0 {
		t.Errorf("AskHost() at a host that signs another challenge = %+v, want it not proved", v)
	}
	if v := look(doctor.URLs{Public: honest.URL, Admin: honest.URL, OperatorKey: "vop_bad"}); v.Operator.Status != 401 || v.IdentityProved {
		t.Errorf("AskHost() with a wrong key = %+v, want 401", v)
	}
	if v := look(doctor.URLs{Public: honest.URL, Admin: honest.URL + "/elsewhere", OperatorKey: "vop_good"}); v.Operator.Status != 302 {
		t.Errorf("AskHost() at a handler that sends elsewhere = %+v, want 302: the key goes nowhere else", v)
	}
	if v := look(doctor.URLs{Public: honest.URL, OperatorKey: "vop_good"}); v.Operator.Err == nil {
		t.Errorf("AskHost() without an admin API = %+v, want an error", v)
	}
	if v := look(doctor.URLs{Public: honest.URL}); !v.NoKey || v.Health.Status != 404 {
		t.Errorf("AskHost() without a key = %+v, want health alone", v)
	}
	if v := look(doctor.URLs{}); !v.Absent {
		t.Errorf("AskHost() at nothing = %+v, want absent", v)
	}
	honest.Close()
	v = look(doctor.URLs{Public: honest.URL, FunctionURLs: map[string]string{"message": honest.URL}, Admin: honest.URL, Edge: true, OperatorKey: "vop_good"})
	if v.Health.Err == nil || v.Operator.Err == nil || v.DirectAnswers["message"].Err == nil {
		t.Errorf("AskHost() at a closed handler = %+v, want errors", v)
	}
	if strings.Contains(fmt.Sprint(v), "vop_good") {
		t.Errorf("the visit holds the operator key: %v", v)
	}
}

func TestLookReadsNoMoreThanItMust(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for page := bytes.Repeat([]byte("x"), 1<<16); r.Context().Err() == nil; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if v := doctor.AskHost(ctx, http.DefaultClient, doctor.URLs{Public: endless.URL}, rand.Reader); v.Health.Status != 200 {
		t.Errorf("AskHost() at an endless answer = %+v, want its status", v)
	}
}

func TestToolsTellMissingFromOld(t *testing.T) {
	got := doctor.FindTools(t.Context(), func(_ context.Context, program string, _ ...string) (string, error) {
		switch program {
		case "go":
			return "go version go1.26.8 linux/arm64\n", nil
		case "node":
			return "v18.20.1\n", nil
		}
		return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
	})
	want := []doctor.Tool{{Name: "go", Version: "1.26.8"}, {Name: "node", Version: "18.20.1"}, {Name: "npm", Missing: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("FindTools() (-want +got):\n%s", diff)
	}
	if got := doctor.FindTools(t.Context(), func(context.Context, string, ...string) (string, error) { return "", errors.New("exit 1") }); !got[0].Missing {
		t.Errorf("FindTools() of programs that fail = %+v, want them missing", got)
	}
	if _, err := doctor.RunProgram(t.Context(), "no-such-program-of-ours"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("RunProgram() of no program = %v, want %v", err, exec.ErrNotFound)
	}
}

func FuzzToolVersion(f *testing.F) {
	f.Add("go version go1.26.8 linux/arm64")
	f.Add("v22.1.0")
	f.Add("devel go1.27-abcdef 2026")
	f.Fuzz(func(t *testing.T, said string) {
		tools := doctor.FindTools(t.Context(), func(context.Context, string, ...string) (string, error) { return said, nil })
		for _, c := range doctor.Examine(doctor.Facts{Tools: tools}).Checks[:3] {
			if c.Verdict == doctor.NotApplicable || c.Verdict == doctor.Warn {
				t.Errorf("check of %q = %+v, want ok or FAIL", said, c)
			}
		}
	})
}
