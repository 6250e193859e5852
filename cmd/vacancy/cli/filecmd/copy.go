package filecmd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// changed is the result of a copy.
type changed struct {
	Written   []string `json:"written"`
	Unchanged int      `json:"unchanged"`
	Skipped   []string `json:"skipped,omitempty"`
}

func (r changed) Print(w io.Writer) {
	fmt.Fprintf(w, "%s written, %d unchanged\n", kit.Counted(len(r.Written), "file"), r.Unchanged)
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "  skipped  %s\n", kit.Printable(s))
	}
}

// copyFlags are the flags of push and pull.
type copyFlags struct {
	target
	only string
	yes  bool
}

func (f *copyFlags) command(a *kit.App, cmd *cobra.Command, create bool, run func(context.Context, *kit.App, *client, *os.Root) (changed, error)) *cobra.Command {
	cmd.Flags().StringVar(&f.only, "only", "", "only files whose paths begin with this `PREFIX`")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "replace files that differ, and do not ask")
	f.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if create {
			if err := os.Mkdir(args[0], 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return problem.Wrap(problem.NotFound, err, "%s cannot be created: %v", args[0], err)
			}
		}
		root, err := os.OpenRoot(args[0])
		if err != nil {
			return problem.Wrap(problem.NotFound, err, "%s cannot be opened: %v", args[0], err)
		}
		defer root.Close()
		return f.with(cmd.Context(), a, func(c *client) error {
			r, err := run(cmd.Context(), a, c, root)
			if err != nil {
				return err
			}
			r.Written = append([]string{}, r.Written...)
			return a.Show(r)
		})
	}
	return cmd
}

func pushCommand(a *kit.App) *cobra.Command {
	var f copyFlags
	return f.command(a, &cobra.Command{
		Use:   "push FOLDER",
		Short: "Copy a folder into a workspace",
		Long: `Copy the files of FOLDER into a workspace. Files with the same bytes are not sent, so an interrupted
command can be run again. Files that differ in the workspace are replaced after a question. Symbolic
links and .git are skipped. Files that FOLDER lacks stay in the workspace.`,
		Example: "  vacancy files push .\n  vacancy files push ~/notes --only research/ --workspace notes",
	}, false, f.push)
}

func pullCommand(a *kit.App) *cobra.Command {
	var f copyFlags
	return f.command(a, &cobra.Command{
		Use:   "pull FOLDER",
		Short: "Copy a workspace into a folder",
		Long: `Copy the files of a workspace into FOLDER, which is created if it does not exist. Files of FOLDER that
differ are replaced after a question. No file is written through a symbolic link, outside of FOLDER or
into .git. Files that the workspace lacks stay in FOLDER.`,
		Example: "  vacancy files pull .\n  vacancy files pull out --only .vault/",
	}, true, f.pull)
}

// isGit reports whether a path leads into the folder of git, also as file systems spell it that ignore case or invisible
// characters. Files there can run programs.
func isGit(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		name = workspace.Fold(strings.Map(func(c rune) rune {
			if unicode.Is(unicode.Cf, c) {
				return -1
			}
			return c
		}, name))
		if name = strings.TrimRight(name, ". "); name == ".git" || name == "git~1" {
			return true
		}
	}
	return false
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ask asks whether files that differ may be replaced.
func (f *copyFlags) ask(ctx context.Context, a *kit.App, differ []string, where string) error {
	if len(differ) == 0 || f.yes {
		return nil
	}
	return a.Ask(ctx, fmt.Sprintf("%s in %s %s, for example %s. Type yes to replace:", kit.Counted(len(differ), "file"), kit.Printable(where),
		map[bool]string{true: "differs", false: "differ"}[len(differ) == 1], kit.Printable(differ[0])), "yes")
}

func (f *copyFlags) push(ctx context.Context, a *kit.App, c *client, root *os.Root) (r changed, err error) {
	local, spelled := []string{}, map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return problem.Wrap(problem.NotFound, err, "%s cannot be read: %v", name, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case name != "." && isGit(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			r.Skipped = append(r.Skipped, name+" is not a regular file")
			return nil
		}
		normal, err := workspace.CheckPath(name)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(normal, f.only) {
			return nil
		}
		if other := spelled[workspace.Fold(normal)]; other != "" {
			return problem.New(problem.Conflict, "%s and %s differ only in their spelling, and a workspace has one of them", other, name)
		}
		spelled[workspace.Fold(normal)] = name
		local = append(local, name)
		return nil
	})
	if err != nil {
		return r, err
	}
	remote := map[string]workspace.File{}
	listed, err := c.list(ctx, "")
	if err != nil {
		return r, err
	}
	for _, file := range listed {
		remote[file.Path] = file
	}
	var send, differ []string
	for _, name := range local {
		data, err := readRegular(root, name)
		if err != nil {
			return r, err
		}
		normal, _ := workspace.CheckPath(name) // checked above
		switch file, ok := remote[normal]; {
		case ok && file.Hash == hashOf(data):
			r.Unchanged++
			continue
		case ok:
			differ = append(differ, normal)
		}
		send = append(send, name)
	}
	if err := f.ask(ctx, a, differ, "workspace "+c.workspace); err != nil {
		return r, err
	}
	line := a.ProgressLine()
	defer line.Clear()
	for i, name := range send {
		line.Show("%d of %s  %s", i+1, kit.Counted(len(send), "file"), kit.Printable(name))
		data, err := readRegular(root, name)
		if err != nil {
			return r, err
		}
		normal, _ := workspace.CheckPath(name)
		match := ""
		if file, ok := remote[normal]; ok {
			match = workspaceapi.Tag(file)
		}
		if err := c.put(ctx, normal, match, data); err != nil {
			if problem.Is(err, problem.Precondition) {
				err = problem.New(problem.Conflict, "%s was changed in workspace %s since this command began; run the same command again", normal, c.workspace)
			}
			return r, err
		}
		r.Written = append(r.Written, normal)
	}
	return r, nil
}

// readRegular reads a file of a folder, unless it is a symbolic link.
func readRegular(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, problem.Wrap(problem.NotFound, err, "%s cannot be read: %v", name, err)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, problem.Wrap(problem.NotFound, err, "%s cannot be read: %v", name, err)
	}
	defer file.Close()
	return readFile(name, file)
}

func (f *copyFlags) pull(ctx context.Context, a *kit.App, c *client, root *os.Root) (r changed, err error) {
	listed, err := c.list(ctx, f.only)
	if err != nil {
		return r, err
	}
	var get []workspace.File
	var differ []string
	for _, file := range listed {
		if normal, err := workspace.CheckPath(file.Path); err != nil || normal != file.Path {
			return r, problem.New(problem.Untrusted, "the host lists the path %.100q, which no file may have", file.Path)
		}
		if isGit(file.Path) {
			r.Skipped = append(r.Skipped, file.Path+" belongs to git")
			continue
		}
		exists, err := checkLocal(root, file.Path)
		if err != nil {
			return r, err
		}
		if exists {
			data, err := readRegular(root, file.Path)
			if err == nil && hashOf(data) == file.Hash {
				r.Unchanged++
				continue
			}
			differ = append(differ, file.Path)
		}
		get = append(get, file)
	}
	if err := f.ask(ctx, a, differ, "the folder"); err != nil {
		return r, err
	}
	line := a.ProgressLine()
	defer line.Clear()
	for i, file := range get {
		line.Show("%d of %s  %s", i+1, kit.Counted(len(get), "file"), kit.Printable(file.Path))
		data, err := c.get(ctx, file.Path)
		if err == nil {
			_, err = checkLocal(root, file.Path)
		}
		if err == nil {
			err = writeLocal(root, file.Path, data)
		}
		if err != nil {
			return r, err
		}
		r.Written = append(r.Written, file.Path)
	}
	return r, nil
}

// checkLocal reports whether a file exists in a folder. It returns an error if the path leads through a symbolic link or a
// file, or to something that is not a file.
func checkLocal(root *os.Root, file string) (exists bool, err error) {
	names := strings.Split(file, "/")
	for i := range names {
		at, want, isLast := strings.Join(names[:i+1], "/"), "a folder", i == len(names)-1
		if isLast {
			want = "a file"
		}
		info, err := root.Lstat(filepath.FromSlash(at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case err != nil:
			return false, problem.Wrap(problem.Unavailable, err, "%s: %v", at, err)
		case kindOf(info.Mode()) != want:
			return false, problem.New(problem.Conflict, "%s: expected %s, got %s; move it away, or choose another folder", at, want, kindOf(info.Mode()))
		}
	}
	return true, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a folder"
	case m.IsRegular():
		return "a file"
	}
	return "something else"
}

// writeLocal replaces a file of a folder. A crash leaves the old file or the new one.
func writeLocal(root *os.Root, file string, data []byte) (err error) {
	name := filepath.FromSlash(file)
	folder := filepath.FromSlash(path.Dir(file))
	if folder != "." {
		err = root.MkdirAll(folder, 0o755)
	}
	aside := filepath.Join(folder, ".vacancy-"+rand.Text())
	if err == nil {
		err = writeAside(root, aside, data)
	}
	if err == nil {
		err = root.Rename(aside, name)
	}
	if err != nil {
		_ = root.Remove(aside)
		return problem.Wrap(problem.Unavailable, err, "%s cannot be written: %v", file, err)
	}
	return nil
}

func writeAside(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
