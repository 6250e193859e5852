package opensearch_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/tests/opensearch"
)

// person runs commands with their own home directory.
type person struct {
	t   *testing.T
	env []string
}

func (p person) run(args ...string) string {
	p.t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(p.t.Context(), cli.Seams{}, args, strings.NewReader(""), &out, &errs, p.env); code != 0 {
		p.t.Fatalf("vacancy %s = %d\n%s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String()
}

// dev runs a host until the test or end ends it.
func (p person) dev(args ...string) (url string, end func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	read, write := io.Pipe()
	errs := new(await.Output)
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(ctx, cli.Seams{}, append([]string{"dev", "--json", "--listen", "127.0.0.1:0"}, args...), strings.NewReader(""), write, errs, p.env)
		_ = write.Close()
	}()
	lines := bufio.NewReader(read)
	defer func() {
		if end == nil {
			cancel() // dev is not ready
		}
	}()
	line := await.ReadLine(p.t, "dev", lines, errs)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	var ready struct{ URL string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		p.t.Fatalf("dev says %q: %v", line, err)
	}
	ended := false
	end = func() {
		if cancel(); !ended {
			ended = true
			await.Receive(p.t, "dev ends", done)
		}
	}
	p.t.Cleanup(end)
	return ready.URL, end
}

func TestAHostSearchesInTheClusterThatItIsGiven(t *testing.T) {
	index := opensearch.Start(t) + "/host-test"
	p := person{t, []string{"VACANCY_HOME=" + t.TempDir()}}
	url, end := p.dev("--opensearch", index)
	p.run("publish", "demo", "--capability", "translates contracts")
	for _, words := range []string{"contracts", "ontrac"} {
		if got := p.run("search", words, "--registry", url); !strings.Contains(got, "translates contracts") {
			t.Errorf("search %s = %q, want what was published", words, got)
		}
	}
	end()
	if got := p.run("reindex", "--opensearch", index, "--json"); !strings.Contains(got, `"listed":1`) {
		t.Errorf("reindex = %s, want one that is listed", got)
	}
	// Another host's index is separate.
	url, end = p.dev("--opensearch", index+"-other")
	defer end()
	if got := p.run("search", "contracts", "--registry", url); !strings.Contains(got, "translates contracts") {
		t.Errorf("search in an index that is new = %q, want that it filled itself", got)
	}
}
