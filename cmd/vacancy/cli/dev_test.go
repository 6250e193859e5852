package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// greeting is standard output until dev has said all.
type greeting struct {
	mu   sync.Mutex
	text bytes.Buffer
	said func(text string)
}

func (g *greeting) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.text.Write(b)
	if bytes.HasSuffix(b, []byte("The log:\n")) {
		g.said(g.text.String())
	}
	return len(b), nil
}

func TestDevSaysLittleAndLessTheNextTime(t *testing.T) {
	home := filepath.Join(t.TempDir(), "my home")
	env := []string{"VACANCY_HOME=" + home}
	args := []string{"dev", "--listen", "127.0.0.1:0"}
	start := func(while func(text string)) (text, errs string) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var said bytes.Buffer
		out := &greeting{}
		out.said = func(s string) { while(s); text = s; stop() }
		if code := Run(ctx, kit.Seams{}, args, strings.NewReader(""), out, &said, env); code != problem.ExitOK {
			t.Fatalf("dev = exit %d, %s", code, said.String())
		}
		return text, said.String()
	}
	first, errs := start(func(string) {})
	lines := strings.Split(strings.TrimSuffix(first, "\n"), "\n")
	if len(lines) > 8 || !strings.HasPrefix(first, "http://127.0.0.1:") || !strings.Contains(first, `demo answered "hello" with "echo from`) || !strings.Contains(first, "  vacancy new fox\n") {
		t.Errorf("the first start says\n%swant at most 8 lines, from the URL to commands", first)
	}
	if !strings.HasPrefix(errs, "Starting a host over "+home) {
		t.Errorf("the first start says %q on standard error, want at once that it starts", errs)
	}
	if want := "The host has ended. Everything is kept in " + filepath.Join(home, "host") + ". To start it again: vacancy dev --listen 127.0.0.1:0\n"; !strings.HasSuffix(errs, want) {
		t.Errorf("after Ctrl-C standard error ends with %q, want %q", errs, want)
	}
	next, _ := start(func(text string) {
		var said bytes.Buffer
		if code := Run(t.Context(), kit.Seams{}, args, strings.NewReader(""), &said, &said, env); code != problem.ExitConflict {
			t.Errorf("a second dev = exit %d, %s", code, said.String())
		}
		url, _, _ := strings.Cut(text, web.Path+" ")
		want := `^vacancy dev: a host runs already at ` + regexp.QuoteMeta(url) + ` \(pid [1-9][0-9]*\), over .*\ntry: vacancy list\n$`
		if !regexp.MustCompile(want).MatchString(said.String()) {
			t.Errorf("a second dev says %q, want %s", said.String(), want)
		}
	})
	if n := strings.Count(next, "\n"); n != 3 || !strings.Contains(next, "vacancy list shows") {
		t.Errorf("the next start says\n%swant three lines", next)
	}
}
