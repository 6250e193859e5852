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
	var where kit.HostFlags
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open [NAME|ID|URL]",
		Short: "Show a host or a vacant in a browser",
		Long: `Open the page of a vacant, by its name or id. Without an argument, open the page of the host, which
lists the published vacants. URL is the address of any host, or of a vacant of any host. Over SSH and
without a display, the command only prints the address.`,
		Example: "  vacancy open\n  vacancy open demo\n  vacancy open https://agents.example.org/v/clerk/ --print",
		Args:    kit.ArgumentCheck(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url, err := pageURL(a, cmd.Context(), where, args)
			if err != nil {
				return err
			}
			r := openResult{URL: url}
			if browser := browserCommand(a.Env); browser != nil && !printOnly && !a.JSON {
				// Do not wait for the program, because it may run until the browser is closed.
				r.Opened = exec.Command(browser[0], append(browser[1:], url)...).Start() == nil
			}
			return a.PrintResult(r)
		},
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "only print the address")
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

// pageURL returns the address of an existing page of a vacant or a host.
func pageURL(a *kit.App, ctx context.Context, where kit.HostFlags, args []string) (string, error) {
	ref := strings.Join(args, "")
	url, isURL := ref, kit.IsURL(ref)
	if isURL {
		if host, vacant, ok := strings.Cut(strings.TrimRight(ref, "/"), "/v/"); ok {
			url = host + webpath.VacantPath(vacant)
		} else {
			url = strings.TrimRight(ref, "/") + webpath.Path
		}
	} else {
		host, err := a.FindRemoteHost(where)
		if err != nil {
			return "", err
		}
		var base string
		if host != nil {
			base = host.Record.URL
		} else {
			hostStatus, err := fetchStatus(a, ctx, where.Data)
			if errors.Is(err, serve.ErrNoHost) {
				return "", a.NoHostError(where.Data)
			}
			if err != nil {
				return "", err
			}
			base = hostStatus.URL
		}
		if url = base + webpath.Path; ref != "" {
			url = base + webpath.VacantPath(ref)
		}
	}
	status, _, err := a.HTTPTransport(0).Get(ctx, url)
	switch {
	case err != nil:
		return "", err
	case status == http.StatusNotFound && ref != "" && !isURL:
		return "", problem.New(problem.NotFound, "the host has no page for %q: it hosts no such vacant, or the vacant is a closed child", ref)
	case status != http.StatusOK:
		return "", problem.New(problem.NotFound, "%s answers %d: the host has no such page", kit.EscapeLine(url), status)
	}
	return url, nil
}

// browserCommand returns the program that opens a URL, or nil if the user would not see the page.
func browserCommand(env map[string]string) []string {
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
