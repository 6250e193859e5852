package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// firstWrite calls f at the first write.
type firstWrite struct {
	once sync.Once
	f    func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.once.Do(w.f)
	return len(b), nil
}

func TestEachLineOfALogInJSONIsJSON(t *testing.T) {
	env := []string{"VACANCY_HOME=" + filepath.Join(t.TempDir(), "home")}
	for _, tt := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"serve", "--log", "json", "--listen", "127.0.0.1:0", "--public-url", "http://127.0.0.1:8080"}, problem.ExitOK, "Starting a host in"},
		{[]string{"dev", "--log", "json", "--listen", "127.0.0.1:0"}, problem.ExitOK, "Starting a host in"},
		{[]string{"serve", "--log", "json", "--public-url", "ftp://x.example"}, problem.ExitUsage, "--public-url: expected"},
		{[]string{"serve", "--log", "json"}, problem.ExitUsage, "vacancy serve --public-url"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var errs bytes.Buffer
		code := Run(ctx, kit.Seams{}, tt.args, strings.NewReader(""), &firstWrite{f: stop}, &errs, env)
		stop()
		if code != tt.exit || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%v: exit %d, %s, want %d with %q", tt.args, code, errs.String(), tt.exit, tt.want)
		}
		for line := range strings.Lines(errs.String()) {
			var record struct{ Time, Level, Msg string }
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" || record.Msg == "" {
				t.Errorf("%v logs %q: %v", tt.args, line, err)
			}
		}
	}
}
