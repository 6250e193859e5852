package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/agent/history"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// entries are the lines of a history with every kind of row.
func entries(t testing.TB) string {
	t.Helper()
	a := hosttest.Story(t, memory.New())
	var out strings.Builder
	now := a.Time // the test's own clock continues
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/v1/admin/chain/x/demo", nil)
	r.SetPathValue("from", a.Pair().Caller.String())
	r.SetPathValue("to", "demo")
	export.ChainHandler(export.Config{Source: a.Store, Vault: a.Vault, Now: func() time.Time { return now }, Retention: hosttest.Retention}).ServeHTTP(w, r)
	for line := range strings.Lines(w.Body.String()) {
		if one, ok := strings.CutPrefix(strings.TrimSuffix(line, "}\n"), `{"entry":`); ok {
			fmt.Fprintf(&out, "%s\n", one)
		}
	}
	return out.String()
}

// The browser's tests compare all damages with what the page says.
func TestAHistoryIsVerified(t *testing.T) {
	whole := entries(t)
	h, err := history.Check(iotest.OneByteReader(strings.NewReader(whole)))
	if err != nil || h.Unread != 9 || len(h.Parts) != 2 || !h.Parts[0].OK || !h.Parts[1].OK {
		t.Errorf("Check() = %+v, %v", h, err)
	}
	if !history.IsHistory([]byte(whole)) || history.IsHistory([]byte(`{"format":`)) {
		t.Error("Is() takes one for the other")
	}
	for name, tt := range map[string]struct{ file, want string }{
		"nothing":     {"", "the file has none"},
		"a long line": {whole + strings.Repeat("x", 9<<20) + "\n", "line 17: the line is too long"},
		"many broken": {strings.Repeat("{}\n", 150), "50 more are broken"},
		"cut":         {whole[:len(whole)-1], "line 16: the file ends before the end of the line"},
	} {
		h, err := history.Check(strings.NewReader(tt.file))
		if got := fmt.Sprint(h.Parts); err != nil || !strings.Contains(got, tt.want) || len(h.Parts) > 103 {
			t.Errorf("%s: %.300s, %v; want %q", name, got, err, tt.want)
		}
	}
	lost := errors.New("the disk is gone")
	if _, err := history.Check(io.MultiReader(strings.NewReader(whole), iotest.ErrReader(lost))); !errors.Is(err, lost) {
		t.Errorf("Check() = %v, want the reader's error", err)
	}
}

// Each id, hash and signature of a history is checked. A reset's link has no meaning.
func TestEachHashOfAHistoryIsChecked(t *testing.T) {
	whole, found := entries(t), 0
	for _, at := range regexp.MustCompile(`[0-9a-f]{64,128}`).FindAllStringIndex(whole, -1) {
		changed := []byte(whole)
		if changed[at[0]]++; changed[at[0]] == ':' || changed[at[0]] == 'g' {
			changed[at[0]] = '5'
		}
		h, err := history.Check(bytes.NewReader(changed))
		line := whole[strings.LastIndexByte(whole[:at[0]], '\n')+1:]
		ofReset := strings.Contains(line[:40], `"reset"`) && strings.HasSuffix(whole[:at[0]], `"prev":"`)
		if found++; err != nil || datadir.AllOK(h.Parts) && !ofReset {
			t.Errorf("another hash at %d is not noticed: %.80s", at[0], whole[at[0]-40:])
		}
	}
	if found < 100 {
		t.Errorf("%d hashes: this proves little", found)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(entries(f)))
	f.Add([]byte(`{"position":1}` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := history.Check(bytes.NewReader(file))
		if err != nil || len(h.Parts) == 0 || len(h.Parts) > 103 {
			t.Errorf("Check() = %+v, %v", h, err)
		}
	})
}
