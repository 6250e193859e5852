// Package filecmd has the commands about the files in workspaces.
package filecmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// target chooses a workspace of a host.
type target struct {
	where     kit.Where
	workspace string
}

func (t *target) flags(f *pflag.FlagSet) {
	f.StringVar(&t.workspace, "workspace", workspace.Main, "the workspace; a test key has only "+workspace.Test)
	kit.HostFlags(f, &t.where)
}

// with runs f with the files of the account of the key in the environment, or else of the operator.
func (t *target) with(ctx context.Context, a *kit.App, f func(*client) error) error {
	if a.Env[kit.AccountKeyEnv] != "" {
		base, err := a.AgentURL(ctx, t.where)
		if err != nil {
			return err
		}
		return a.WithKey(base, func(c op.Client) error { return f(&client{Client: c, target: t}) })
	}
	return a.WithAdmin(t.where, false, func(c *kit.AdminAPI) error { return f(&client{Client: c, target: t, operates: true}) })
}

// client sends requests for the files of a workspace.
type client struct {
	op.Client
	*target
	operates bool
}

// call calls an operation of the operator or of a key.
func call[In, Out any](ctx context.Context, c *client, t op.Twin[In, Out], in In) (Out, error) {
	return t.For(c.operates).Call(ctx, c.Client, in)
}

func (c *client) one() workspaceapi.One { return workspaceapi.One{Workspace: c.workspace} }

func (c *client) list(ctx context.Context, prefix string) (all []workspace.File, err error) {
	in := workspaceapi.FileList{One: c.one(), Prefix: prefix, Limit: 1000}
	for {
		page, err := call(ctx, c, workspaceapi.ListFiles, in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Files...)
		if in.Cursor = page.Next; page.Next == "" {
			return all, nil
		}
	}
}

// patience is the number of times that a request waits for a rate limit of the host.
const patience = 6

// send sends a request with the bytes of a file, or for them. It waits while the host takes no more requests.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	at, err := workspaceapi.At(c.operates, c.workspace, path)
	if err != nil {
		return nil, err
	}
	raw, ok := c.Client.(interface {
		Send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error)
	})
	if !ok {
		return nil, problem.New(problem.Internal, "the client sends no files")
	}
	for try := 1; ; try++ {
		resp, err := raw.Send(ctx, method, at, header, body)
		if !problem.Is(err, problem.TooMany) || try == patience {
			return resp, err
		}
		if err := cloud.Wait(ctx, time.Second<<(try-1)); err != nil {
			return nil, err
		}
	}
}

// get returns the bytes of a file. Bytes that its ETag does not name are an error.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, workspace.MaxFile+1))
	if sum := sha256.Sum256(data); err != nil || resp.Header.Get("ETag") != workspaceapi.Tag(workspace.File{Hash: hex.EncodeToString(sum[:])}) {
		return nil, problem.Wrap(problem.Unavailable, err, "the host's answer was cut off")
	}
	return data, nil
}

// put writes a file. match is the ETag of the file that it replaces, * for any, or "" if it must not exist.
func (c *client) put(ctx context.Context, path, match string, data []byte) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if match != "" {
		header.Set("If-Match", match)
	}
	resp, err := c.send(ctx, http.MethodPut, path, header, append([]byte{}, data...))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Command returns the command of files.
func Command(a *kit.App) *cobra.Command {
	return a.Parent(&cobra.Command{
		Use:   "files",
		Short: "Manage the files of your agents",
		Long: `Manage the files in a workspace, which agents read and write in tasks. The workspaces belong to the
account of the key in $VACANCY_KEY, which needs the scopes agents and read. Without a key they belong
to the operator. Writing the first file creates a workspace.`,
		Example: "  vacancy files push docs\n  vacancy files ls\n  vacancy files pull out --only .vault",
	}, listCommand(a), catCommand(a), putCommand(a), removeCommand(a), pushCommand(a), pullCommand(a))
}

func listCommand(a *kit.App) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Short:   "List files",
		Long:    "List the files of a workspace whose paths begin with PREFIX, with their sizes and times.",
		Example: "  vacancy files ls\n  vacancy files ls .vault/",
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), a, func(c *client) error {
				all, err := c.list(cmd.Context(), kit.OptionalArgument(args))
				if err != nil {
					return err
				}
				return a.Print(map[string]any{"files": append([]workspace.File{}, all...)}, func(w io.Writer) {
					kit.Table(w, "no files", all, func(f workspace.File) []any {
						return []any{f.Path, kit.Counted(f.Size, "byte"), kit.Moment(f.Time)}
					})
				})
			})
		},
	}
	t.flags(cmd.Flags())
	return cmd
}

func catCommand(a *kit.App) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:     "cat PATH",
		Short:   "Print a file",
		Long:    "Print a file of a workspace. With --json it is an object with the bytes in base64.",
		Example: "  vacancy files cat .vault/report.md",
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), a, func(c *client) error {
				data, err := c.get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.Print(map[string]any{"path": args[0], "data": data}, func(io.Writer) {
					_, _ = io.WriteString(a.Out, a.AnswerText(string(data)))
				})
			})
		},
	}
	t.flags(cmd.Flags())
	return cmd
}

func putCommand(a *kit.App) *cobra.Command {
	var t target
	var replace bool
	cmd := &cobra.Command{
		Use:     "put FILE PATH",
		Short:   "Write a file",
		Long:    "Write FILE of this machine, or - for standard input, to PATH in a workspace.",
		Example: "  vacancy files put plan.md docs/plan.md\n  date | vacancy files put - now.txt --replace",
		RunE: func(cmd *cobra.Command, args []string) error {
			from := io.Reader(a.In)
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return problem.Wrap(problem.NotFound, err, "%s cannot be read: %v", args[0], err)
				}
				defer f.Close()
				from = f
			}
			data, err := readFile(args[0], from)
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), a, func(c *client) error {
				err := c.put(cmd.Context(), args[1], "", data)
				switch {
				case problem.Is(err, problem.Precondition) && replace:
					err = c.put(cmd.Context(), args[1], "*", data)
				case problem.Is(err, problem.Precondition):
					err = kit.WithHint(problem.New(problem.Conflict, "%s exists in workspace %s", args[1], c.workspace), "%s --replace", cmd.CommandPath())
				}
				if err != nil {
					return err
				}
				return a.Print(changed{Written: []string{args[1]}}, func(w io.Writer) {
					fmt.Fprintf(w, "%s: %s\n", kit.Printable(args[1]), kit.Counted(len(data), "byte"))
				})
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a file that exists")
	t.flags(cmd.Flags())
	return cmd
}

// readFile reads a file that fits into a workspace.
func readFile(name string, from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, workspace.MaxFile+1))
	if err != nil {
		return nil, problem.Wrap(problem.NotFound, err, "%s cannot be read: %v", name, err)
	}
	if len(data) > workspace.MaxFile {
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d bytes in a file, got more", name, workspace.MaxFile)
	}
	return data, nil
}

func removeCommand(a *kit.App) *cobra.Command {
	var t target
	var all, yes bool
	cmd := &cobra.Command{
		Use:   "rm [PATH...]",
		Short: "Delete files",
		Long: `Delete files of a workspace. With --all, the workspace is removed with all its files, and the key that
seals them is destroyed. Nobody can read them after that.`,
		Example: "  vacancy files rm .vault/report.md\n  vacancy files rm --all --workspace drafts",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return kit.WithHint(problem.New(problem.Usage, "expected either paths or --all"), "%s", cmd.UseLine())
			}
			if all && !yes {
				if err := a.Ask(cmd.Context(), fmt.Sprintf("Remove workspace %s with all its files? Type its name:", kit.Printable(t.workspace)), t.workspace); err != nil {
					return err
				}
			}
			return t.with(cmd.Context(), a, func(c *client) error {
				if all {
					if _, err := call(cmd.Context(), c, workspaceapi.Remove, c.one()); err != nil {
						return err
					}
					return a.Print(map[string]any{"removed": c.workspace}, func(w io.Writer) {
						fmt.Fprintf(w, "workspace %s is removed\n", kit.Printable(c.workspace))
					})
				}
				for _, path := range args {
					if _, err := call(cmd.Context(), c, workspaceapi.DeleteFile, workspaceapi.Target{One: c.one(), Path: path}); err != nil {
						return err
					}
				}
				return a.Print(map[string]any{"deleted": args}, func(w io.Writer) {
					fmt.Fprintf(w, "%s deleted\n", kit.Counted(len(args), "file"))
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove the workspace with all its files")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	t.flags(cmd.Flags())
	return cmd
}
