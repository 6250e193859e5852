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

// writeResult is the result of a command that writes files.
type writeResult struct {
	Written   []string `json:"written"`
	Unchanged int      `json:"unchanged"`
	Skipped   []string `json:"skipped,omitempty"`
}

type copier struct {
	*kit.App
	*fileAPI
	prefix       string
	skipQuestion bool
	skipped      []string // with the reason
}

func pushCommand(a *kit.App, f *fileAPI) *cobra.Command {
	c := &copier{App: a, fileAPI: f}
	return c.newCommand(kit.Operation[string, writeResult]{
		Use: "push FOLDER", Short: "Copy a folder into a workspace",
		Long: `Copy the files of FOLDER into a workspace. Unchanged files are not sent, so you can run
an interrupted command again. The command asks before it replaces files in the workspace. It skips
symbolic links and .git. It deletes no files in the workspace.`,
		Example: "  vacancy files push .\n  vacancy files push ~/notes --only research/ --workspace notes",
	}, c.pushFolder)
}

func pullCommand(a *kit.App, f *fileAPI) *cobra.Command {
	c := &copier{App: a, fileAPI: f}
	return c.newCommand(kit.Operation[string, writeResult]{
		Use: "pull FOLDER", Short: "Copy a workspace into a folder",
		Long: `Copy the files of a workspace into FOLDER. A missing FOLDER is created. The command asks before it
replaces files in FOLDER. It never writes through a symbolic link, outside of FOLDER or into .git. It
deletes no files in FOLDER.`,
		Example: "  vacancy files pull .\n  vacancy files pull out --only .vault/",
	}, c.pullWorkspace)
}

func (cp *copier) newCommand(o kit.Operation[string, writeResult], copyFiles kit.CallerFunc[string, writeResult]) *cobra.Command {
	o.API, o.Op = cp, copyFiles
	o.Print = func(w io.Writer, r writeResult) {
		fmt.Fprintf(w, "%s written, %d unchanged\n", kit.Plural(len(r.Written), "file"), r.Unchanged)
		for _, s := range r.Skipped {
			fmt.Fprintf(w, "  skipped  %s\n", kit.EscapeLine(s))
		}
	}
	o.AddFlags = func(fs *pflag.FlagSet) {
		fs.StringVar(&cp.prefix, "only", "", "only files whose paths begin with this `PREFIX`")
		fs.BoolVar(&cp.skipQuestion, "yes", false, "replace files that differ, and do not ask")
	}
	o.Request = func(q kit.Request) (string, error) { return q.Args[0], nil }
	return o.Command(cp.App)
}

// copyChanged copies the files whose hash in source differs from the hash in target. Unless --yes
// is set, it asks before it replaces files.
func (cp *copier) copyChanged(ctx context.Context, source, target map[string]string, targetName string, copyFile func(path string) error) (r writeResult, err error) {
	r = writeResult{Written: []string{}, Skipped: cp.skipped}
	var paths, replaced []string
	for _, path := range slices.Sorted(maps.Keys(source)) {
		switch hash, exists := target[path]; {
		case hash == source[path]:
			r.Unchanged++
			continue
		case exists:
			replaced = append(replaced, path)
		}
		paths = append(paths, path)
	}
	if len(replaced) > 0 && !cp.skipQuestion {
		question := fmt.Sprintf("%s in %s would be replaced, for example %s. Type yes to replace:", kit.Plural(len(replaced), "file"), targetName, kit.EscapeLine(replaced[0]))
		if err := cp.AskToConfirm(ctx, question, "yes"); err != nil {
			return r, err
		}
	}
	progress := cp.ProgressLine()
	defer progress.Clear()
	for i, path := range paths {
		progress.Show("%d of %s  %s", i+1, kit.Plural(len(paths), "file"), kit.EscapeLine(path))
		if err := copyFile(path); err != nil {
			return r, err
		}
		r.Written = append(r.Written, path)
	}
	return r, nil
}

func (cp *copier) pushFolder(ctx context.Context, c op.Client, folder string) (writeResult, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return writeResult{}, err
	}
	defer root.Close()
	localHashes, remoteHashes, localNames := map[string]string{}, map[string]string{}, map[string]string{} // the keys of localNames are folded paths
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case isInGit(name) && d.IsDir():
			return fs.SkipDir
		case isInGit(name) || d.IsDir():
			return nil
		case !d.Type().IsRegular():
			cp.skipped = append(cp.skipped, name+" is not a regular file")
			return nil
		}
		path, err := workspace.NormalizePath(name)
		if err != nil || !strings.HasPrefix(path, cp.prefix) {
			return err
		}
		if other := localNames[workspace.FoldPath(path)]; other != "" {
			return problem.New(problem.Conflict, "%s and %s differ only in their spelling; a workspace can contain only one of them", other, name)
		}
		data, err := readLocal(root, name)
		localNames[workspace.FoldPath(path)], localHashes[path] = name, hashHex(data)
		return err
	})
	if err != nil {
		return writeResult{}, err
	}
	files, err := listFiles(ctx, c, workspaceapi.FileList{WorkspaceName: cp.WorkspaceName})
	if err != nil {
		return writeResult{}, err
	}
	for _, file := range files {
		remoteHashes[file.Path] = file.Hash
	}
	return cp.copyChanged(ctx, localHashes, remoteHashes, "workspace "+kit.EscapeLine(cp.Workspace), func(path string) error {
		data, err := readLocal(root, localNames[workspace.FoldPath(path)])
		if err != nil {
			return err
		}
		in := workspaceapi.NewFile{FileTarget: workspaceapi.FileTarget{WorkspaceName: cp.WorkspaceName, Path: path}, Body: string(data)}
		if hash := remoteHashes[path]; hash != "" {
			in.IfMatch = workspaceapi.ETag(hash)
		}
		_, err = retryWhenLimited(workspaceapi.WriteFile)(ctx, c, in)
		if problem.Is(err, problem.PreconditionFailed) {
			err = problem.New(problem.Conflict, "%s was changed in workspace %s since this command began; run the same command again", path, cp.Workspace)
		}
		return err
	})
}

func (cp *copier) pullWorkspace(ctx context.Context, c op.Client, folder string) (writeResult, error) {
	err := os.MkdirAll(folder, 0o755)
	if err != nil {
		return writeResult{}, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return writeResult{}, err
	}
	defer root.Close()
	localHashes, remoteHashes, comparedInfo := map[string]string{}, map[string]string{}, map[string]fs.FileInfo{}
	files, err := listFiles(ctx, c, workspaceapi.FileList{WorkspaceName: cp.WorkspaceName, Prefix: cp.prefix})
	if err != nil {
		return writeResult{}, err
	}
	for _, file := range files {
		if normalized, err := workspace.NormalizePath(file.Path); err != nil || normalized != file.Path {
			return writeResult{}, problem.New(problem.Untrusted, "the host lists the path %.100q, which is not a valid file path", file.Path)
		}
		if isInGit(file.Path) {
			cp.skipped = append(cp.skipped, file.Path+" belongs to git")
			continue
		}
		remoteHashes[file.Path] = file.Hash
		info, err := findLocal(root, file.Path)
		comparedInfo[file.Path] = info
		if info != nil {
			localHashes[file.Path] = "" // replaced below if the sizes are equal
		}
		if info != nil && info.Size() == file.Size {
			var data []byte
			data, err = readLocal(root, file.Path)
			localHashes[file.Path] = hashHex(data)
		}
		if err != nil {
			return writeResult{}, err
		}
	}
	return cp.copyChanged(ctx, remoteHashes, localHashes, "the folder", func(path string) error {
		b, err := retryWhenLimited(workspaceapi.ReadFile)(ctx, c, workspaceapi.ReadTarget{WorkspaceName: cp.WorkspaceName, Path: path})
		if err != nil {
			return err
		}
		info, err := findLocal(root, path)
		if err != nil {
			return err
		}
		if oldInfo := comparedInfo[path]; (info == nil) != (oldInfo == nil) || info != nil && (info.Size() != oldInfo.Size() || !info.ModTime().Equal(oldInfo.ModTime())) {
			return problem.New(problem.Conflict, "%s was changed in the folder since this command began; run the same command again", path)
		}
		return writeLocal(root, path, b.Data)
	})
}

// isInGit reports whether a path leads into the folder .git, whose files can make git run programs.
// It recognizes spellings that some file systems treat as equal.
func isInGit(file string) bool {
	folded := strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, workspace.FoldPath(file))
	return slices.ContainsFunc(strings.Split(folded, "/"), func(name string) bool {
		name = strings.TrimRight(name, ". ")
		return name == ".git" || name == "git~1"
	})
}

func hashHex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// findLocal describes a local file, or returns nil if the file does not exist. A symbolic link in
// the path is an error.
func findLocal(root *os.Root, file string) (info fs.FileInfo, err error) {
	typeNames := map[fs.FileMode]string{0: "a file", fs.ModeDir: "a folder", fs.ModeSymlink: "a symbolic link"}
	for i, char := range file + "/" {
		if char != '/' {
			continue
		}
		wantType := fs.ModeDir
		if i == len(file) {
			wantType = 0
		}
		info, err = root.Lstat(filepath.FromSlash(file[:i]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case info.Mode().Type() != wantType:
			return nil, problem.New(problem.Conflict, "%s: expected %s, got %s; move it away, or choose another folder",
				file[:i], typeNames[wantType], cmp.Or(typeNames[info.Mode().Type()], "something else"))
		}
	}
	return info, nil
}

func readLocal(root *os.Root, file string) ([]byte, error) {
	info, err := findLocal(root, file)
	if err != nil {
		return nil, err
	}
	if info != nil && info.Size() > workspace.MaxFileBytes {
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d bytes in a file, got %d", file, workspace.MaxFileBytes, info.Size())
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
