// Package filecmd contains the commands that manage files in workspaces.
package filecmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/teamcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// fileAPI is the API of the workspace that the flag --workspace names.
type fileAPI struct {
	teamcmd.API
	workspaceapi.WorkspaceName
}

func (f *fileAPI) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Workspace, "workspace", workspace.MainName, "the workspace; a test key can use only "+workspace.TestName)
	f.API.AddFlags(cmd)
}

const maxTries = 6

// retryWhenLimited returns an operation that retries when a rate limit refuses the request.
func retryWhenLimited[In, Out any](twin op.Twin[In, Out]) kit.CallerFunc[In, Out] {
	return func(ctx context.Context, c op.Client, in In) (out Out, err error) {
		for try := 1; ; try++ {
			out, err = teamcmd.CallFunc(twin)(ctx, c, in)
			if !problem.Is(err, problem.TooManyRequests) || try == maxTries {
				return out, err
			}
			if err := cloud.Sleep(ctx, time.Second<<(try-1)); err != nil {
				return out, err
			}
		}
	}
}

func listFiles(ctx context.Context, c op.Client, in workspaceapi.FileList) (files []workspace.File, err error) {
	for in.Limit = 1000; ; {
		page, err := retryWhenLimited(workspaceapi.ListFiles)(ctx, c, in)
		if err != nil {
			return nil, err
		}
		files = append(files, page.Files...)
		if in.Cursor = page.Next; page.Next == "" {
			return files, nil
		}
	}
}

func Command(a *kit.App) *cobra.Command {
	f := &fileAPI{API: teamcmd.API{AllowInProcess: true}}
	var catPath string
	return a.ParentCommand(&cobra.Command{
		Use: "files", Short: "Manage the files of your agents",
		Long: `Manage the files in a workspace. Agents read and write these files in tasks. The workspaces belong to
the account of the key in $VACANCY_KEY. The key needs the scopes agents and read. Without a key, the
workspaces belong to the operator. The first file that is written creates the workspace.`,
		Example: "  vacancy files push docs\n  vacancy files ls\n  vacancy files pull out --only .vault",
	},
		kit.Operation[workspaceapi.FileList, []workspace.File]{
			Use: "ls [PREFIX]", Short: "List files",
			Long:    "List the files of a workspace whose paths begin with PREFIX, with their sizes and times.",
			Example: "  vacancy files ls\n  vacancy files ls .vault/",
			Op:      kit.CallerFunc[workspaceapi.FileList, []workspace.File](listFiles), API: f,
			Request: func(q kit.Request) (workspaceapi.FileList, error) {
				return workspaceapi.FileList{WorkspaceName: f.WorkspaceName, Prefix: kit.OptionalArgument(q.Args)}, nil
			},
			JSONObject: func(files []workspace.File) any { return map[string]any{"files": append([]workspace.File{}, files...)} },
			Print: func(w io.Writer, files []workspace.File) {
				kit.PrintTable(w, "no files", files, func(f workspace.File) []any {
					return []any{f.Path, kit.Plural(f.Size, "byte"), kit.FormatTime(f.Time)}
				})
			},
		}.Command(a),
		kit.Operation[workspaceapi.ReadTarget, op.Blob]{
			Use: "cat PATH", Short: "Print a file",
			Long:    "Print a file of a workspace. With --json the output is an object with the bytes in base64.",
			Example: "  vacancy files cat .vault/report.md",
			Op:      retryWhenLimited(workspaceapi.ReadFile), API: f,
			Request: func(q kit.Request) (workspaceapi.ReadTarget, error) {
				catPath = q.Args[0]
				return workspaceapi.ReadTarget{WorkspaceName: f.WorkspaceName, Path: catPath}, nil
			},
			JSONObject: func(b op.Blob) any { return map[string]any{"path": catPath, "data": b.Data} },
			Print:      func(_ io.Writer, b op.Blob) { _, _ = io.WriteString(a.Out, a.FormatAnswer(string(b.Data))) },
		}.Command(a),
		putCommand(a, f), removeCommand(a, f), pushCommand(a, f), pullCommand(a, f))
}

func putCommand(a *kit.App, f *fileAPI) *cobra.Command {
	var replace bool
	return kit.Operation[workspaceapi.NewFile, workspaceapi.Written]{
		Use: "put FILE PATH", Short: "Write a file",
		Long:     "Write FILE of this machine, or - for standard input, to PATH in a workspace.",
		Example:  "  vacancy files put plan.md docs/plan.md\n  date | vacancy files put - now.txt --replace",
		API:      f,
		AddFlags: func(fs *pflag.FlagSet) { fs.BoolVar(&replace, "replace", false, "replace a file that exists") },
		Request: func(q kit.Request) (in workspaceapi.NewFile, err error) {
			var data []byte
			if q.Args[0] == "-" {
				data, err = io.ReadAll(io.LimitReader(a.In, workspace.MaxFileBytes+1)) // the host rejects larger files
			} else {
				data, err = os.ReadFile(q.Args[0])
			}
			return workspaceapi.NewFile{FileTarget: workspaceapi.FileTarget{WorkspaceName: f.WorkspaceName, Path: q.Args[1]}, Body: string(data)}, err
		},
		Op: kit.CallerFunc[workspaceapi.NewFile, workspaceapi.Written](func(ctx context.Context, c op.Client, in workspaceapi.NewFile) (workspaceapi.Written, error) {
			out, err := retryWhenLimited(workspaceapi.WriteFile)(ctx, c, in)
			if problem.Is(err, problem.PreconditionFailed) && replace {
				in.IfMatch = "*"
				return retryWhenLimited(workspaceapi.WriteFile)(ctx, c, in)
			}
			return out, err
		}),
		AddHint: func(q kit.Request, err error) error {
			if problem.Is(err, problem.PreconditionFailed) && !replace {
				err = kit.WithHint(problem.New(problem.Conflict, "%s exists in workspace %s", q.Args[1], f.Workspace), "%s --replace", q.Command)
			}
			return err
		},
		JSONObject: func(out workspaceapi.Written) any { return writeResult{Written: []string{out.Path}} },
		Print: func(w io.Writer, out workspaceapi.Written) {
			fmt.Fprintf(w, "%s: %s\n", kit.EscapeLine(out.Path), kit.Plural(out.Size, "byte"))
		},
	}.Command(a)
}

// deleteResult contains the deleted files or the removed workspace.
type deleteResult struct {
	Files     []string `json:"deleted,omitempty"`
	Workspace string   `json:"removed,omitempty"`
}

func removeCommand(a *kit.App, f *fileAPI) *cobra.Command {
	var removeAll, skipQuestion bool
	return kit.Operation[[]string, deleteResult]{
		Use: "rm [PATH...]", Short: "Delete files",
		Long: `Delete files of a workspace. --all removes the workspace with all its files, and destroys the key that
seals the files. The files cannot be read after that.`,
		Example: "  vacancy files rm .vault/report.md\n  vacancy files rm --all --workspace drafts",
		API:     f,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&removeAll, "all", false, "remove the workspace with all its files")
			fs.BoolVar(&skipQuestion, "yes", false, "do not ask for confirmation")
		},
		Request: func(q kit.Request) ([]string, error) {
			if removeAll == (len(q.Args) > 0) {
				return nil, kit.WithHint(problem.New(problem.Usage, "expected either paths or --all"), "%s PATH", q.Command)
			}
			return q.Args, nil
		},
		Op: kit.CallerFunc[[]string, deleteResult](func(ctx context.Context, c op.Client, paths []string) (d deleteResult, err error) {
			if removeAll && !skipQuestion {
				err = a.AskToConfirm(ctx, fmt.Sprintf("Remove workspace %s with all its files? Type its name:", kit.EscapeLine(f.Workspace)), f.Workspace)
			}
			if removeAll && err == nil {
				_, err = retryWhenLimited(workspaceapi.RemoveWorkspace)(ctx, c, f.WorkspaceName)
				d.Workspace = f.Workspace
			}
			for _, path := range paths {
				if err == nil {
					_, err = retryWhenLimited(workspaceapi.DeleteFile)(ctx, c, workspaceapi.FileTarget{WorkspaceName: f.WorkspaceName, Path: path})
				}
			}
			d.Files = paths
			return d, err
		}),
		Print: func(w io.Writer, d deleteResult) {
			if removeAll {
				fmt.Fprintf(w, "workspace %s is removed\n", kit.EscapeLine(d.Workspace))
				return
			}
			fmt.Fprintf(w, "%s deleted\n", kit.Plural(len(d.Files), "file"))
		},
	}.Command(a)
}
