package filecmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// changed is the result of a command that writes files.
type changed struct {
	Written   []string `json:"written"`
	Unchanged int      `json:"unchanged"`
	Skipped   []string `json:"skipped,omitempty"`
}

// copier copies files between a folder and a workspace.
type copier struct {
	*kit.App
	*fileAPI
	only    string   // prefix of the paths to copy, or "" for all files
	yes     bool     // replace files without asking
	skipped []string // skipped files with the reason
}

func pushCommand(a *kit.App, f *fileAPI) *cobra.Command {
	c := &copier{App: a, fileAPI: f}
	return c.command(kit.Operation[string, changed]{
		Use: "push FOLDER", Short: "Copy a folder into a workspace",
		Long: `Copy the files of FOLDER into a workspace. Files with the same bytes are not sent, so an interrupted
command can be run again. Files that differ in the workspace are replaced after a question. Symbolic
links and .git are skipped. Files that FOLDER lacks stay in the workspace.`,
		Example: "  vacancy files push .\n  vacancy files push ~/notes --only research/ --workspace notes",
	}, c.push)
}

func pullCommand(a *kit.App, f *fileAPI) *cobra.Command {
	c := &copier{App: a, fileAPI: f}
	return c.command(kit.Operation[string, changed]{
		Use: "pull FOLDER", Short: "Copy a workspace into a folder",
		Long: `Copy the files of a workspace into FOLDER, which is created if it does not exist. Files of FOLDER that
differ are replaced after a question. No file is written through a symbolic link, outside of FOLDER or
into .git. Files that the workspace lacks stay in FOLDER.`,
		Example: "  vacancy files pull .\n  vacancy files pull out --only .vault/",
	}, c.pull)
}

func (f *copier) command(o kit.Operation[string, changed], run kit.CallerFunc[string, changed]) *cobra.Command {
	o.API, o.Op = f, run
	o.Print = func(w io.Writer, r changed) {
		fmt.Fprintf(w, "%s written, %d unchanged\n", kit.Plural(len(r.Written), "file"), r.Unchanged)
		for _, s := range r.Skipped {
			fmt.Fprintf(w, "  skipped  %s\n", kit.Printable(s))
		}
	}
	o.Flags = func(fs *pflag.FlagSet) {
		fs.StringVar(&f.only, "only", "", "only files whose paths begin with this `PREFIX`")
		fs.BoolVar(&f.yes, "yes", false, "replace files that differ, and do not ask")
	}
	o.Request = func(q kit.Request) (string, error) { return q.Args[0], nil }
	return o.Command(f.App)
}

// copy copies each file of the source whose hash is different or missing in the target. The two
// maps contain hashes keyed by path. Before it replaces files, it asks for confirmation unless
// --yes is set.
func (f *copier) copy(ctx context.Context, from, to map[string]string, where string, send func(path string) error) (r changed, err error) {
	r = changed{Written: []string{}, Skipped: f.skipped}
	var paths, differ []string
	for _, path := range slices.Sorted(maps.Keys(from)) {
		switch hash, exists := to[path]; {
		case hash == from[path]:
			r.Unchanged++
			continue
		case exists:
			differ = append(differ, path)
		}
		paths = append(paths, path)
	}
	if len(differ) > 0 && !f.yes {
		question := fmt.Sprintf("%s in %s would be replaced, for example %s. Type yes to replace:", kit.Plural(len(differ), "file"), where, kit.Printable(differ[0]))
		if err := f.Ask(ctx, question, "yes"); err != nil {
			return r, err
		}
	}
	line := f.ProgressLine()
	defer line.Clear()
	for i, path := range paths {
		line.Show("%d of %s  %s", i+1, kit.Plural(len(paths), "file"), kit.Printable(path))
		if err := send(path); err != nil {
			return r, err
		}
		r.Written = append(r.Written, path)
	}
	return r, nil
}

func (f *copier) push(ctx context.Context, c op.Client, folder string) (changed, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return changed{}, err
	}
	defer root.Close()
	local, remote, names := map[string]string{}, map[string]string{}, map[string]string{} // the last map has file names by folded path
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case isGit(name) && d.IsDir():
			return fs.SkipDir
		case isGit(name) || d.IsDir():
			return nil
		case !d.Type().IsRegular():
			f.skipped = append(f.skipped, name+" is not a regular file")
			return nil
		}
		path, err := workspace.CheckPath(name)
		if err != nil || !strings.HasPrefix(path, f.only) {
			return err
		}
		if other := names[workspace.Fold(path)]; other != "" {
			return problem.New(problem.Conflict, "%s and %s differ only in their spelling, and a workspace has one of them", other, name)
		}
		data, err := readLocal(root, name)
		names[workspace.Fold(path)], local[path] = name, hashOf(data)
		return err
	})
	if err != nil {
		return changed{}, err
	}
	listed, err := list(ctx, c, workspaceapi.FileList{WorkspaceName: f.WorkspaceName})
	if err != nil {
		return changed{}, err
	}
	for _, file := range listed {
		remote[file.Path] = file.Hash
	}
	return f.copy(ctx, local, remote, "workspace "+kit.Printable(f.Workspace), func(path string) error {
		data, err := readLocal(root, names[workspace.Fold(path)])
		if err != nil {
			return err
		}
		in := workspaceapi.NewFile{Target: workspaceapi.Target{WorkspaceName: f.WorkspaceName, Path: path}, Body: string(data)}
		if hash := remote[path]; hash != "" {
			in.IfMatch = workspaceapi.Tag(hash)
		}
		_, err = retryWhenLimited(workspaceapi.WriteFile)(ctx, c, in)
		if problem.Is(err, problem.Precondition) {
			err = problem.New(problem.Conflict, "%s was changed in workspace %s since this command began; run the same command again", path, f.Workspace)
		}
		return err
	})
}

func (f *copier) pull(ctx context.Context, c op.Client, folder string) (changed, error) {
	err := os.MkdirAll(folder, 0o755)
	if err != nil {
		return changed{}, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return changed{}, err
	}
	defer root.Close()
	local, remote, compared := map[string]string{}, map[string]string{}, map[string]fs.FileInfo{}
	listed, err := list(ctx, c, workspaceapi.FileList{WorkspaceName: f.WorkspaceName, Prefix: f.only})
	if err != nil {
		return changed{}, err
	}
	for _, file := range listed {
		if normal, err := workspace.CheckPath(file.Path); err != nil || normal != file.Path {
			return changed{}, problem.New(problem.Untrusted, "the host lists the path %.100q, which no file may have", file.Path)
		}
		if isGit(file.Path) {
			f.skipped = append(f.skipped, file.Path+" belongs to git")
			continue
		}
		remote[file.Path] = file.Hash
		info, err := findLocal(root, file.Path)
		compared[file.Path] = info
		if info != nil {
			local[file.Path] = "" // assume a difference until the sizes and hashes are compared
		}
		if info != nil && info.Size() == file.Size {
			var data []byte
			data, err = readLocal(root, file.Path)
			local[file.Path] = hashOf(data)
		}
		if err != nil {
			return changed{}, err
		}
	}
	return f.copy(ctx, remote, local, "the folder", func(path string) error {
		b, err := retryWhenLimited(workspaceapi.ReadFile)(ctx, c, workspaceapi.ReadTarget{WorkspaceName: f.WorkspaceName, Path: path})
		if err != nil {
			return err
		}
		info, err := findLocal(root, path)
		if err != nil {
			return err
		}
		if before := compared[path]; (info == nil) != (before == nil) || info != nil && (info.Size() != before.Size() || !info.ModTime().Equal(before.ModTime())) {
			return problem.New(problem.Conflict, "%s was changed in the folder since this command began; run the same command again", path)
		}
		return writeLocal(root, path, b.Data)
	})
}

// isGit reports whether a path leads into the folder .git, whose files can make git run programs.
// It recognizes the spellings accepted by file systems that ignore case or invisible characters.
func isGit(file string) bool {
	visible := strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, workspace.Fold(file))
	return slices.ContainsFunc(strings.Split(visible, "/"), func(name string) bool {
		name = strings.TrimRight(name, ". ")
		return name == ".git" || name == "git~1"
	})
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// findLocal describes a local file, or returns nil if the file does not exist. It returns an error
// if the path leads through a symbolic link or a file, or to something other than a regular file.
func findLocal(root *os.Root, file string) (info fs.FileInfo, err error) {
	words := map[fs.FileMode]string{0: "a file", fs.ModeDir: "a folder", fs.ModeSymlink: "a symbolic link"}
	for i, c := range file + "/" {
		if c != '/' {
			continue
		}
		want := fs.ModeDir
		if i == len(file) {
			want = 0
		}
		info, err = root.Lstat(filepath.FromSlash(file[:i]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case info.Mode().Type() != want:
			return nil, problem.New(problem.Conflict, "%s: expected %s, got %s; move it away, or choose another folder",
				file[:i], words[want], cmp.Or(words[info.Mode().Type()], "something else"))
		}
	}
	return info, nil
}

func readLocal(root *os.Root, file string) ([]byte, error) {
	info, err := findLocal(root, file)
	if err != nil {
		return nil, err
	}
	if info != nil && info.Size() > workspace.MaxFile {
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d bytes in a file, got %d", file, workspace.MaxFile, info.Size())
	}
	return root.ReadFile(filepath.FromSlash(file))
}

func writeLocal(root *os.Root, file string, data []byte) error {
	name := filepath.FromSlash(file)
	_, err := findLocal(root, file)
	if err == nil {
		err = root.MkdirAll(filepath.Dir(name), 0o755)
	}
	if err == nil {
		err = root.WriteFile(name, data, 0o644)
	}
	return err
}
