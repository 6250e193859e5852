// Package workspaceapi is the HTTP API for files in workspaces. The operator uses it below
// /v1/admin, and account keys with the scope agents use it at /v1/workspaces.
//
// A file may contain untrusted text, and a displayed page would have the host's origin. The content
// is therefore sent as an attachment that browsers neither display nor execute.
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

const Path = "/v1/workspaces"

const (
	workspacePath = Path + "/{workspace}"
	filesPath     = workspacePath + "/files"
	filePath      = filesPath + "/{path...}"

	defaultPage = 100
	maxPage     = 1000
)

type (
	WorkspaceName struct {
		Workspace string `path:"workspace"`
	}
	FileList struct {
		WorkspaceName
		Prefix string `query:"prefix"`
		Cursor string `query:"cursor"`
		Limit  uint64 `query:"limit"`
	}
	// FileTarget identifies a file. IfMatch is the ETag that the file must have, or "*" if the file
	// must exist.
	FileTarget struct {
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
	NewFile struct {
		FileTarget
		Body string `body:"text"`
	}
	Workspaces struct {
		Workspaces []workspace.Info `json:"workspaces"`
	}
	Files struct {
		Files []workspace.File `json:"files"`
		Next  string           `json:"next"`
	}
)

type Written struct {
	workspace.File
	created bool
}

func (f *Written) SetHeaders(h http.Header) int {
	h.Set("ETag", ETag(f.Hash))
	if f.created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// Operations of the API. WriteFile replaces a file only if the request has an If-Match header.
var (
	ListWorkspaces  = newTwin[op.None, Workspaces]("GET", Path, "lists the workspaces of an account")
	RemoveWorkspace = newTwin[WorkspaceName, op.None]("DELETE", workspacePath, "removes a workspace, with all its files")
	ListFiles       = newTwin[FileList, Files]("GET", filesPath, "lists the files of a workspace, by path")
	ReadFile        = newTwin[ReadTarget, op.Blob]("GET", filePath, "reads a file of a workspace")
	WriteFile       = newTwin[NewFile, Written]("PUT", filePath, "writes a file of a workspace, and replaces an existing file only with If-Match")
	DeleteFile      = newTwin[FileTarget, op.None]("DELETE", filePath, "deletes a file of a workspace")
)

func newTwin[In, Out any](method, path, doc string) op.Twin[In, Out] {
	requirement := billing.KeyRequirement{Scope: billing.ScopeAgents, AllowsTest: true, RequiresActive: true}
	if method == "GET" {
		requirement.ExtraScope = billing.ScopeRead
	}
	return op.NewTwin(op.Op[In, Out]{Method: method, Path: path, Access: op.Access{Key: requirement}, MaxBody: workspace.MaxFileBytes, Doc: doc})
}

func Operations() []op.Spec {
	return op.Specs(append(Routes(nil, op.Server{OperatorOnly: true}), Routes(nil, op.Server{})...))
}

func payerOf(ctx context.Context) *call.Payer {
	if k := op.CallerOf(ctx).Key; k != nil {
		return k.Payer()
	}
	return nil
}

func (o WorkspaceName) name() string { return o.Workspace }

func newWorkspaceRoute[In interface{ name() string }, Out any](s op.Server, t op.Twin[In, Out], f func(context.Context, workspace.Ref, In) (Out, error)) op.Route {
	return op.NewTwinRoute(s, t, func(ctx context.Context, in In) (none Out, err error) {
		ref, err := workspace.ResolveRef(payerOf(ctx), in.name())
		if err != nil {
			return none, err
		}
		return f(ctx, ref, in)
	})
}

func Routes(w *workspace.Workspaces, s op.Server) []op.Route {
	const mediaType = "application/octet-stream"
	readRoute := newWorkspaceRoute(s, ReadFile, func(ctx context.Context, ref workspace.Ref, in ReadTarget) (op.Blob, error) {
		f, err := w.Stat(ctx, ref, in.Path)
		if err != nil {
			return op.Blob{}, err
		}
		b := op.Blob{Header: http.Header{
			"Etag": {ETag(f.Hash)}, "Content-Type": {mediaType}, "Cache-Control": {"no-store"},
			"Content-Disposition":          {mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(f.Path)})},
			"Content-Security-Policy":      {"sandbox; default-src 'none'"},
			"Cross-Origin-Resource-Policy": {"same-origin"},
		}}
		if strings.TrimPrefix(in.IfNoneMatch, "W/") == ETag(f.Hash) {
			b.Status = http.StatusNotModified
			return b, nil
		}
		b.Data, err = w.ReadContent(ctx, f)
		return b, err
	})
	readRoute.Out, readRoute.AnswerMedia, readRoute.AnswerDoc = nil, []string{mediaType}, "The bytes, as an attachment with an ETag. If the If-None-Match header contains the ETag, the status is 304."
	writeRoute := newWorkspaceRoute(s, WriteFile, func(ctx context.Context, ref workspace.Ref, in NewFile) (Written, error) {
		cond, err := parseIfMatch(in.IfMatch)
		if err != nil {
			return Written{}, err
		}
		cond.Absent = in.IfMatch == ""
		f, err := w.Write(ctx, ref, workspace.Change{Path: in.Path, Data: []byte(in.Body), Condition: cond})
		return Written{f, cond.Absent}, err
	})
	writeRoute.RequestMedia = []string{mediaType}
	return []op.Route{
		readRoute, writeRoute,
		op.NewTwinRoute(s, ListWorkspaces, func(ctx context.Context, _ op.None) (Workspaces, error) {
			reply := Workspaces{[]workspace.Info{}}
			ref, _ := workspace.ResolveRef(payerOf(ctx), "") // the default name is always valid
			infos, err := w.ListWorkspaces(ctx, ref.Owner)
			for _, info := range infos {
				if _, accessErr := workspace.ResolveRef(payerOf(ctx), info.Name); accessErr == nil {
					reply.Workspaces = append(reply.Workspaces, info)
				}
			}
			return reply, err
		}),
		newWorkspaceRoute(s, RemoveWorkspace, func(ctx context.Context, ref workspace.Ref, _ WorkspaceName) (none op.None, err error) {
			if p := payerOf(ctx); p != nil && p.Issuer != "" {
				return none, problem.New(problem.Forbidden, "a token cannot remove a workspace; use an account key")
			}
			return none, w.RemoveWorkspace(ctx, ref)
		}),
		newWorkspaceRoute(s, ListFiles, func(ctx context.Context, ref workspace.Ref, in FileList) (Files, error) {
			files, next, err := w.ListFiles(ctx, ref, in.Prefix, int(min(cmp.Or(in.Limit, defaultPage), maxPage)), in.Cursor)
			return Files{append([]workspace.File{}, files...), next}, err
		}),
		newWorkspaceRoute(s, DeleteFile, func(ctx context.Context, ref workspace.Ref, in FileTarget) (none op.None, err error) {
			cond, err := parseIfMatch(in.IfMatch)
			if err != nil {
				return none, err
			}
			return none, w.Delete(ctx, ref, workspace.Change{Path: in.Path, Condition: cond})
		}),
	}
}

func parseIfMatch(header string) (workspace.Condition, error) {
	if header == "" || header == "*" {
		return workspace.Condition{Exists: header == "*"}, nil
	}
	hash := strings.Trim(header, `"`)
	if hash == "" || ETag(hash) != header || strings.Contains(hash, `"`) {
		return workspace.Condition{}, problem.Invalid("If-Match", "one ETag in quotes, or *", httpapi.QuoteTruncated(header))
	}
	return workspace.Condition{Hash: hash}, nil
}

func ETag(hash string) string { return `"` + hash + `"` }
