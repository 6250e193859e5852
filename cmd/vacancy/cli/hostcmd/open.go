package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func openCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var onlyPrint bool
	cmd := &cobra.Command{
		Use:   "open [NAME|ID|URL]",
		Short: "Show a host or a vacant in a browser",
		Long: `Open the page of a vacant, by name or id, or without an argument the page of its host, which lists
the published vacants. URL is the address of a vacant of any host, or of a host. Without a display, and
over SSH, the address is printed.`,
		Example: "  vacancy open\n  vacancy open demo\n  vacancy open https://agents.example.org/v/clerk/ --print",
		Args:    kit.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := pageOf(a, cmd.Context(), w, args)
			if err != nil {
				return err
			}
			r := openResult{URL: url}
			if program := browser(a.Env); program != nil && !onlyPrint && !a.JSON {
				// Do not wait for the program, because it may run until the browser is closed.
				r.Opened = exec.Command(program[0], append(program[1:], url)...).Start() == nil
			}
			return a.Show(r)
		},
	}
	cmd.Flags().BoolVar(&onlyPrint, "print", false, "print the address")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// pageOf returns the address of the page of a vacant or a host, after it has checked that the page
// exists.
func pageOf(a *kit.App, ctx context.Context, w kit.Where, args []string) (string, error) {
	what := strings.Join(args, "")
	url, isURL := what, kit.IsURL(what)
	if isURL {
		if host, vacant, ok := strings.Cut(strings.TrimRight(what, "/"), "/v/"); ok {
			url = host + webpath.VacantPath(vacant)
		} else {
			url = strings.TrimRight(what, "/") + webpath.Path
		}
	} else {
		host, err := a.Find(w)
		if err != nil {
			return "", err
		}
		var base string
		if host != nil {
			base = host.Record.URL
		} else {
			s, err := runningStatus(a, ctx, w.Data)
			if errors.Is(err, serve.ErrNoHost) {
				return "", a.NoHost(w.Data)
			}
			if err != nil {
				return "", err
			}
			base = s.URL
		}
		if url = base + webpath.Path; what != "" {
			url = base + webpath.VacantPath(what)
		}
	}
	status, _, err := a.HTTP(0).Get(ctx, url)
	switch {
	case err != nil:
		return "", err
	case status == http.StatusNotFound && what != "" && !isURL:
		return "", problem.New(problem.NotFound, "the host has no page of %q: it hosts no such vacant, or a closed child", what)
	case status != http.StatusOK:
		return "", problem.New(problem.NotFound, "%s answers %d: the host has no such page", kit.Printable(url), status)
	}
	return url, nil
}

// browser returns the program that opens a URL. It returns nil if the user would not see the page,
// for example in an SSH session.
func browser(env map[string]string) []string {
	if env["SSH_CONNECTION"] != "" {
		return nil
	}
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if env["DISPLAY"] == "" && env["WAYLAND_DISPLAY"] == "" {
		return nil
	}
	return []string{"xdg-open"}
}

type openResult struct {
	URL    string `json:"url"`
	Opened bool   `json:"opened"`
}

func (r openResult) Print(w io.Writer) { fmt.Fprintln(w, r.URL) }
