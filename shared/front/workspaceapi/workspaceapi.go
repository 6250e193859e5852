// Package workspaceapi is the API of the files in workspaces: for the operator below /v1/admin, and for keys of accounts
// with the scope agents at /v1/workspaces.
//
// The bytes of a file are sent as an attachment that a browser neither shows nor runs, because anybody's text may be in
// it, and the page of it would have the host's origin.
package workspaceapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Path is the path of the API.
const Path = "/v1/workspaces"

const (
	onePath   = Path + "/{workspace}"
	filesPath = onePath + "/files"
	filePath  = filesPath + "/{path...}"

	mediaBytes  = "application/octet-stream"
	defaultPage = 100
	maxPage     = 1000
)

// IsPath reports whether a path is Handler's.
func IsPath(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Access of requests that read, and of requests that write.
var (
	Reading = op.Access{Key: billing.Demand{Scope: billing.ScopeAgents, And: billing.ScopeRead, Test: true, Active: true}}
	Writing = op.Access{Key: billing.Demand{Scope: billing.ScopeAgents, Test: true, Active: true}}
)

// Requests and answers.
type (
	// One names a workspace.
	One struct {
		Workspace string `path:"workspace"`
	}
	// FileList selects files whose paths begin with Prefix.
	FileList struct {
		One
		Prefix string `query:"prefix"`
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// Target names a file. IfMatch is the ETag that the file must have, * if it must exist, or "".
	Target struct {
		One
		Path    string `path:"path"`
		IfMatch string `header:"If-Match"`
	}
	// ReadTarget names a file that is read, unless it has the ETag IfNoneMatch.
	ReadTarget struct {
		One
		Path        string `path:"path"`
		IfNoneMatch string `header:"If-None-Match"`
	}
	// NewFile has the bytes of a file.
	NewFile struct {
		Target
		Body string `body:"text"`
	}
	// Workspaces are the workspaces of an account.
	Workspaces struct {
		Workspaces []workspace.Info `json:"workspaces"`
	}
	// Files is a page of files. Next is the cursor of the next page, or "".
	Files struct {
		Files []workspace.File `json:"files"`
		Next  string           `json:"next"`
	}
)

// The operations. Without If-Match, WriteFile only creates a file.
var (
	List       = twin[op.None, Workspaces]("GET", Path, Reading, "lists the workspaces of an account")
	Remove     = twin[One, op.None]("DELETE", onePath, Writing, "removes a workspace, with all its files")
	ListFiles  = twin[FileList, Files]("GET", filesPath, Reading, "lists the files of a workspace, by path")
	ReadFile   = twin[ReadTarget, op.None]("GET", filePath, Reading, "reads a file of a workspace")
	WriteFile  = twin[NewFile, workspace.File]("PUT", filePath, Writing, "writes a file of a workspace, which must not exist without If-Match")
	DeleteFile = twin[Target, op.None]("DELETE", filePath, Writing, "deletes a file of a workspace")
)

func twin[In, Out any](method, path string, access op.Access, doc string) op.Twin[In, Out] {
	o := op.Op[In, Out]{Method: method, Path: "/v1/admin" + strings.TrimPrefix(path, "/v1"), Doc: doc}
	k := o
	k.Path, k.Access = path, access
	return op.Twin[In, Out]{Operator: o, Key: k}
}

type api struct{ files *workspace.Workspaces }

// Operator returns the routes of the operator.
func Operator(w *workspace.Workspaces) []op.Route { return (&api{w}).routes(op.Server{Operator: true}) }

// Handler returns the handler of keys of accounts.
func Handler(w *workspace.Workspaces, keys *billing.Billing, log *slog.Logger, now func() time.Time) http.Handler {
	next := httpapi.API{Name: "workspace", Log: log, Now: now}.Mux(op.Routes((&api{w}).routes(op.Server{Keys: keys})...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; path.Clean(p) != strings.TrimSuffix(p, "/") {
			// The mux would redirect to another path.
			httpapi.Fail(w, problem.Invalid("path", "names between single slashes, without . and ..", httpapi.Clip(p)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Operations lists the operations.
func Operations() []op.Spec {
	return append(op.Specs(Operator(nil)), op.Specs((&api{}).routes(op.Server{}))...)
}

func payerOf(ctx context.Context) *call.Payer {
	if k := op.CallerOf(ctx).Key; k != nil {
		return k.Payer()
	}
	return nil
}

func refOf(ctx context.Context, name string) (workspace.Ref, error) {
	return workspace.RefOf(payerOf(ctx), name)
}

func (d *api) routes(s op.Server) []op.Route {
	read, write := ReadFile.For(s.Operator).Spec(), WriteFile.For(s.Operator).Spec()
	read.Out, read.Status, read.Gives, read.Answer = nil, http.StatusOK, []string{mediaBytes}, "The bytes, as an attachment with an ETag. With If-None-Match, 304 if it is the ETag."
	write.Takes = []string{mediaBytes}
	return []op.Route{
		op.OnTwin(s, List, func(ctx context.Context, _ op.None) (Workspaces, error) {
			ref, err := refOf(ctx, "")
			if err != nil {
				return Workspaces{}, err
			}
			all := []workspace.Info{}
			infos, err := d.files.Workspaces(ctx, ref.Owner)
			for _, info := range infos {
				if _, denied := refOf(ctx, info.Name); denied == nil {
					all = append(all, info)
				}
			}
			return Workspaces{all}, err
		}),
		op.OnTwin(s, Remove, func(ctx context.Context, in One) (none op.None, err error) {
			if p := payerOf(ctx); p != nil && p.Subject != "" {
				return none, problem.New(problem.Forbidden, "a token may not remove a workspace: expected a key of the account")
			}
			ref, err := refOf(ctx, in.Workspace)
			if err != nil {
				return none, err
			}
			return none, d.files.Remove(ctx, ref)
		}),
		op.OnTwin(s, ListFiles, func(ctx context.Context, in FileList) (page Files, err error) {
			ref, err := refOf(ctx, in.Workspace)
			if err != nil {
				return page, err
			}
			files, next, err := d.files.List(ctx, ref, in.Prefix, int(min(cmp.Or(in.Limit, defaultPage), maxPage)), in.Cursor)
			return Files{append([]workspace.File{}, files...), next}, err
		}),
		op.OnTwin(s, DeleteFile, func(ctx context.Context, in Target) (none op.None, err error) {
			ref, err := refOf(ctx, in.Workspace)
			if err != nil {
				return none, err
			}
			q := workspace.Write{Path: in.Path}
			if q.If, err = condition(in.IfMatch); err != nil {
				return none, err
			}
			return none, d.files.Delete(ctx, ref, q)
		}),
		op.HandleAdmitted(s, read, d.read),
		op.HandleAdmitted(s, write, d.write),
	}
}

// condition returns the condition of an If-Match.
func condition(match string) (workspace.If, error) {
	hash, ok := tagOf(match)
	switch {
	case match == "":
		return workspace.If{}, nil
	case match == "*":
		return workspace.If{Exists: true}, nil
	case !ok:
		return workspace.If{}, problem.Invalid("If-Match", "one ETag in quotes, or *", httpapi.Clip(match))
	}
	return workspace.If{Hash: hash}, nil
}

// tagOf returns the hash of a file's ETag.
func tagOf(tag string) (hash string, ok bool) {
	hash, ok = strings.CutPrefix(tag, `"`)
	hash, closed := strings.CutSuffix(hash, `"`)
	return hash, ok && closed && hash != "" && !strings.Contains(hash, `"`)
}

// Tag returns the ETag of a file.
func Tag(f workspace.File) string { return `"` + f.Hash + `"` }

func (d *api) read(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r.Context(), r.PathValue("workspace"))
	if err != nil {
		return err
	}
	f, err := d.files.Stat(r.Context(), ref, r.PathValue("path"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("ETag", Tag(f))
	h.Set("Cache-Control", "no-store")
	if hash, _ := tagOf(strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/")); hash == f.Hash {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	data, err := d.files.Content(r.Context(), f)
	if err != nil {
		h.Del("ETag")
		return err
	}
	h.Set("Content-Type", mediaBytes)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(f.Path)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Last-Modified", f.Time.Format(http.TimeFormat))
	httpapi.Send(w, http.StatusOK, data)
	return nil
}

func (d *api) write(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r.Context(), r.PathValue("workspace"))
	if err != nil {
		return err
	}
	q := workspace.Write{Path: r.PathValue("path")}
	if q.If, err = condition(r.Header.Get("If-Match")); err != nil {
		return err
	}
	switch none := r.Header.Get("If-None-Match"); {
	case none != "" && (none != "*" || q.If != workspace.If{}):
		return problem.Invalid("If-None-Match", "* without If-Match", httpapi.Clip(none))
	case q.If == workspace.If{}:
		q.If.Absent = true
	}
	if _, err := workspace.CheckPath(q.Path); err != nil { // before the body is read
		return err
	}
	if r.ContentLength > workspace.MaxFile {
		return problem.New(problem.TooLarge, "body: expected at most %d bytes in a file, got %d", workspace.MaxFile, r.ContentLength)
	}
	if q.Data, err = httpapi.Bytes(w, r, workspace.MaxFile); err != nil {
		return err
	}
	f, err := d.files.Write(r.Context(), ref, q)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", Tag(f))
	status := http.StatusOK
	if q.If.Absent {
		status = http.StatusCreated
	}
	return httpapi.Answer(w, status, f)
}

// At returns the path of a file, for the operator or for keys of accounts.
func At(operator bool, ws, file string) (string, error) {
	at, err := ReadFile.For(operator).At(ReadTarget{One: One{ws}, Path: file})
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return at, nil
}
