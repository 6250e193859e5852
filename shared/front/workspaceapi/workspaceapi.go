// Package workspaceapi is the HTTP API for files in workspaces. The operator uses it below
// /v1/admin, and account keys with the scope agents use it at /v1/workspaces.
//
// The content of a file is sent as an attachment that browsers neither display nor execute, because
// files may contain untrusted text and a displayed page would have the host's origin.
package workspaceapi

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Path is the root of the API for account keys.
const Path = "/v1/workspaces"

const (
	onePath   = Path + "/{workspace}"
	filesPath = onePath + "/files"
	filePath  = filesPath + "/{path...}"

	defaultPage = 100
	maxPage     = 1000
)

// Requests and answers.
type (
	WorkspaceName struct {
		Workspace string `path:"workspace"`
	}
	// FileList selects the files whose paths begin with Prefix.
	FileList struct {
		WorkspaceName
		Prefix string `query:"prefix"`
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// Target identifies a file. IfMatch is the ETag that the file must have, "*" if the file must
	// exist, or "".
	Target struct {
		WorkspaceName
		Path    string `path:"path"`
		IfMatch string `header:"If-Match"`
	}
	// ReadTarget identifies a file to read. The file is not sent if its ETag is IfNoneMatch.
	ReadTarget struct {
		WorkspaceName
		Path        string `path:"path"`
		IfNoneMatch string `header:"If-None-Match"`
	}
	// NewFile contains the content of a file to write.
	NewFile struct {
		Target
		Body string `body:"text"`
	}
	Workspaces struct {
		Workspaces []workspace.Info `json:"workspaces"`
	}
	// Files is a page of files. Next is the cursor of the next page, or "".
	Files struct {
		Files []workspace.File `json:"files"`
		Next  string           `json:"next"`
	}
)

type Written struct {
	workspace.File
	created bool
}

func (f *Written) Reply(h http.Header) int {
	h.Set("ETag", Tag(f.Hash))
	if f.created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// Operations of the API, each for the operator and for account keys. WriteFile can replace a file
// only if the request has an If-Match header.
var (
	List       = twin[op.None, Workspaces]("GET", Path, "lists the workspaces of an account")
	Remove     = twin[WorkspaceName, op.None]("DELETE", onePath, "removes a workspace, with all its files")
	ListFiles  = twin[FileList, Files]("GET", filesPath, "lists the files of a workspace, by path")
	ReadFile   = twin[ReadTarget, op.Blob]("GET", filePath, "reads a file of a workspace")
	WriteFile  = twin[NewFile, Written]("PUT", filePath, "writes a file of a workspace, which must not exist without If-Match")
	DeleteFile = twin[Target, op.None]("DELETE", filePath, "deletes a file of a workspace")
)

func twin[In, Out any](method, path, doc string) op.Twin[In, Out] {
	demand := billing.Demand{Scope: billing.ScopeAgents, Test: true, Active: true}
	if method == "GET" {
		demand.ExtraScope = billing.ScopeRead
	}
	return op.NewTwin(op.Op[In, Out]{Method: method, Path: path, Access: op.Access{Key: demand}, Limit: workspace.MaxFile, Doc: doc})
}

// Operations lists the operations of both the operator and account keys.
func Operations() []op.Spec {
	return op.Specs(append(Routes(nil, op.Server{Operator: true}), Routes(nil, op.Server{})...))
}

func payerOf(ctx context.Context) *call.Payer {
	if k := op.CallerOf(ctx).Key; k != nil {
		return k.Payer()
	}
	return nil
}

func (o WorkspaceName) name() string { return o.Workspace }

// onWorkspace returns the route of an operation on one of the caller's workspaces.
func onWorkspace[In interface{ name() string }, Out any](s op.Server, t op.Twin[In, Out], f func(context.Context, workspace.Ref, In) (Out, error)) op.Route {
	return op.OnTwin(s, t, func(ctx context.Context, in In) (none Out, err error) {
		ref, err := workspace.RefOf(payerOf(ctx), in.name())
		if err != nil {
			return none, err
		}
		return f(ctx, ref, in)
	})
}

func Routes(w *workspace.Workspaces, s op.Server) []op.Route {
	const bytes = "application/octet-stream"
	read := onWorkspace(s, ReadFile, func(ctx context.Context, ref workspace.Ref, in ReadTarget) (op.Blob, error) {
		f, err := w.Stat(ctx, ref, in.Path)
		if err != nil {
			return op.Blob{}, err
		}
		b := op.Blob{Header: http.Header{
			"Etag": {Tag(f.Hash)}, "Content-Type": {bytes}, "Cache-Control": {"no-store"},
			"Content-Disposition":          {mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(f.Path)})},
			"Content-Security-Policy":      {"sandbox; default-src 'none'"},
			"Cross-Origin-Resource-Policy": {"same-origin"},
		}}
		if strings.TrimPrefix(in.IfNoneMatch, "W/") == Tag(f.Hash) {
			b.Status = http.StatusNotModified
			return b, nil
		}
		b.Data, err = w.Content(ctx, f)
		return b, err
	})
	read.Out, read.Gives, read.Answer = nil, []string{bytes}, "The bytes, as an attachment with an ETag. With If-None-Match, 304 if it is the ETag."
	write := onWorkspace(s, WriteFile, func(ctx context.Context, ref workspace.Ref, in NewFile) (Written, error) {
		cond, err := condition(in.IfMatch)
		if err != nil {
			return Written{}, err
		}
		cond.Absent = in.IfMatch == ""
		f, err := w.Write(ctx, ref, workspace.Write{Path: in.Path, Data: []byte(in.Body), If: cond})
		return Written{f, cond.Absent}, err
	})
	write.Takes = []string{bytes}
	return []op.Route{
		read, write,
		op.OnTwin(s, List, func(ctx context.Context, _ op.None) (Workspaces, error) {
			reply := Workspaces{[]workspace.Info{}}
			ref, _ := workspace.RefOf(payerOf(ctx), "") // the default name is always valid
			infos, err := w.Workspaces(ctx, ref.Owner)
			for _, info := range infos {
				if _, denied := workspace.RefOf(payerOf(ctx), info.Name); denied == nil {
					reply.Workspaces = append(reply.Workspaces, info)
				}
			}
			return reply, err
		}),
		onWorkspace(s, Remove, func(ctx context.Context, ref workspace.Ref, _ WorkspaceName) (none op.None, err error) {
			if p := payerOf(ctx); p != nil && p.Issuer != "" {
				return none, problem.New(problem.Forbidden, "a token may not remove a workspace: expected a key of the account")
			}
			return none, w.Remove(ctx, ref)
		}),
		onWorkspace(s, ListFiles, func(ctx context.Context, ref workspace.Ref, in FileList) (Files, error) {
			files, next, err := w.List(ctx, ref, in.Prefix, int(min(cmp.Or(in.Limit, defaultPage), maxPage)), in.Cursor)
			return Files{append([]workspace.File{}, files...), next}, err
		}),
		onWorkspace(s, DeleteFile, func(ctx context.Context, ref workspace.Ref, in Target) (none op.None, err error) {
			cond, err := condition(in.IfMatch)
			if err != nil {
				return none, err
			}
			return none, w.Delete(ctx, ref, workspace.Write{Path: in.Path, If: cond})
		}),
	}
}

// condition converts the value of an If-Match header.
func condition(match string) (workspace.If, error) {
	if match == "" || match == "*" {
		return workspace.If{Exists: match == "*"}, nil
	}
	hash := strings.Trim(match, `"`)
	if hash == "" || Tag(hash) != match || strings.Contains(hash, `"`) {
		return workspace.If{}, problem.Invalid("If-Match", "one ETag in quotes, or *", httpapi.Clip(match))
	}
	return workspace.If{Hash: hash}, nil
}

func Tag(hash string) string { return `"` + hash + `"` }
