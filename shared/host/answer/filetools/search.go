package filetools

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Limits of an answer. A tool that reaches a limit reports how to continue.
const (
	maxAnswer  = 60 << 10  // bytes
	maxLines   = 2000      // per call of Read
	maxHits    = 100       // per call of Grep
	maxEntries = 500       // per call of Glob or LS
	maxFiles   = 500       // per call of Grep
	maxLine    = 2000      // bytes per line that Read shows
	maxShown   = 300       // bytes per line that Grep shows
	maxGrep    = 100 << 20 // default of Config.GrepBytes
	atOnce     = 8         // files that Grep reads concurrently
)

func (s *session) read(ctx context.Context, in struct {
	target
	Offset int `json:"offset,omitempty" jsonschema:"the first line"`
	Limit  int `json:"limit,omitempty" jsonschema:"the number of lines"`
}) (string, error) {
	f, data, err := s.open(ctx, in.Path)
	switch {
	case err != nil:
		return "", err
	case !utf8.Valid(data):
		return "", problem.Invalid("file_path", "a text file in UTF-8", fmt.Sprintf("%s, a file of %d bytes that is not UTF-8", f.Path, f.Size))
	case in.Limit < 1 || in.Limit > maxLines:
		in.Limit = maxLines
	}
	var out strings.Builder
	lines := slices.Collect(strings.Lines(string(data)))
	first := max(in.Offset, 1)
	for n := first; n <= len(lines); n++ {
		if n == first+in.Limit || out.Len() > maxAnswer-maxLine {
			fmt.Fprintf(&out, "[more: read again with offset %d]", n)
			break
		}
		fmt.Fprintf(&out, "%6d\t%s\n", n, cut(strings.TrimRight(lines[n-1], "\r\n"), maxLine))
	}
	return cmp.Or(out.String(), fmt.Sprintf("[%s has %d lines]", f.Path, len(lines))), nil
}

func cut(line string, size int) string {
	if len(line) <= size {
		return line
	}
	return strings.ToValidUTF8(line[:size], "") + "…"
}

// scope is the part of a workspace that a tool searches.
type scope struct {
	Folder string `json:"path,omitempty" jsonschema:"the folder; the default is the workspace"`
	After  string `json:"after_path,omitempty" jsonschema:"where to go on, as an earlier answer says"`
	glob   *regexp.Regexp
}

func (q *scope) check(pattern string) (err error) {
	if q.glob, err = globOf(pattern); err != nil {
		return err
	}
	if strings.Trim(q.Folder, "./") == "" && !strings.Contains(q.Folder, "..") {
		q.Folder = ""
		return nil
	}
	// The folder ends with a slash, unless it is "" for the workspace.
	q.Folder, err = filePath(q.Folder)
	q.Folder += "/"
	return err
}

// wildcards translates the wildcards of a quoted pattern. alternatives matches its braces.
var (
	wildcards    = strings.NewReplacer(`\*\*/`, "(?:.*/)?", `\*\*`, ".*", `\*`, "[^/]*", `\?`, "[^/]", `\{`, "(?:", `\}`, ")")
	alternatives = regexp.MustCompile(`\\\{.*?\\\}`)
)

// globOf returns a regular expression for the paths that match a pattern. * and ? match within a
// name, ** also matches slashes, and {a,b} matches alternatives. A pattern without a slash matches
// the last name of a path.
func globOf(pattern string) (*regexp.Regexp, error) {
	quoted := regexp.QuoteMeta(strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/"))
	expression := wildcards.Replace(alternatives.ReplaceAllStringFunc(quoted, func(braces string) string { return strings.ReplaceAll(braces, ",", "|") }))
	if !strings.Contains(pattern, "/") {
		expression = "(?:.*/)?" + expression
	}
	re, err := regexp.Compile("(?s)^" + expression + "$")
	if err != nil {
		return nil, problem.Invalid("pattern", "a pattern such as src/**/*.go", fmt.Sprintf("%.80q", pattern))
	}
	return re, nil
}

// files lists the files of a scope that the agent may read, starting at the path q.After.
func (s *session) files(ctx context.Context, q scope) iter.Seq2[workspace.File, error] {
	const page = 500
	candidates := store.Flatten(store.AllPages(func(cursor string) ([]workspace.File, string, error) {
		return s.Files.List(ctx, s.ref, q.Folder, page, cursor)
	}))
	return func(yield func(workspace.File, error) bool) {
		for f, err := range candidates {
			rest, ok := strings.CutPrefix(f.Path, q.Folder) // a folder may exist in several spellings
			isListed := ok && q.glob.MatchString(rest) && s.mayRead(f.Path) && workspace.Fold(f.Path) >= workspace.Fold(q.After)
			if (err != nil || isListed) && !yield(f, err) {
				return
			}
		}
	}
}

func (s *session) listMatches(ctx context.Context, in struct {
	scope
	Pattern string `json:"pattern" canon:"required,max=400" jsonschema:"the pattern, for example src/**/*.go"`
}) (string, error) {
	return s.entries(ctx, "Glob", in.scope, in.Pattern, false)
}

func (s *session) list(ctx context.Context, in scope) (string, error) {
	return s.entries(ctx, "LS", in, "**", true)
}

// entries lists the files of a scope. If isShallow is true, it lists each subfolder as one entry.
func (s *session) entries(ctx context.Context, tool string, q scope, pattern string, isShallow bool) (string, error) {
	if err := q.check(pattern); err != nil {
		return "", err
	}
	var out strings.Builder
	last, n := q.After, 0
	for f, err := range s.files(ctx, q) {
		if err != nil {
			return "", err
		}
		entry := f.Path
		if name, _, isBelow := strings.Cut(entry[len(q.Folder):], "/"); isShallow && isBelow {
			entry = q.Folder + name + "/"
		}
		if entry == last {
			continue
		}
		if n == maxEntries || out.Len() > maxAnswer {
			fmt.Fprintf(&out, "[stopped after %d entries: call %s again with after_path %q]", n, tool, last)
			break
		}
		n, last = n+1, entry
		out.WriteString(entry + "\n")
	}
	return cmp.Or(out.String(), "no files"), nil
}

type grepping struct {
	scope
	Pattern string `json:"pattern" canon:"required,max=1024" jsonschema:"the expression"`
	Glob    string `json:"glob,omitempty" canon:"max=400" jsonschema:"only files that match this pattern"`
	Fold    bool   `json:"ignore_case,omitempty" jsonschema:"take upper and lower case as equal"`
	Mode    string `json:"output_mode,omitempty" jsonschema:"content or files_with_matches; the default is content"`
	Line    int    `json:"after_line,omitempty" jsonschema:"where to go on, as an earlier answer says"`
}

func (s *session) grep(ctx context.Context, in grepping) (string, error) {
	re, err := in.check()
	if err != nil {
		return "", err
	}
	var results []*[]hit
	var found atomic.Int64
	last, size, isCut := "", int64(0), false
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for f, err := range s.files(ctx, in.scope) {
		if f.Path == in.After && in.Line <= 0 && err == nil {
			continue
		}
		isCut = len(results) == maxFiles || size+f.Size > cmp.Or(s.GrepBytes, maxGrep)
		if isCut || found.Load() > maxHits { // searches of all earlier files have started
			break
		}
		hits := new([]hit)
		results, last, size = append(results, hits), f.Path, size+f.Size
		group.Go(func() error {
			if err != nil {
				return err
			}
			data, err := s.Files.Content(ctx, f)
			if problem.Is(err, problem.Damaged) {
				return nil // the file was replaced long ago, or verify reports the damage
			}
			*hits = in.find(re, f.Path, data)
			found.Add(int64(len(*hits)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	const more = "[stopped after %d %s: call Grep again with after_path %q and after_line %d]"
	var out strings.Builder
	n, lastHit := 0, hit{}
	for _, hits := range results {
		for _, h := range *hits {
			if n == maxHits || out.Len() > maxAnswer {
				fmt.Fprintf(&out, more, n, "matches", lastHit.path, lastHit.line)
				return out.String(), nil
			}
			n, lastHit = n+1, h
			out.WriteString(h.text + "\n")
		}
	}
	if isCut {
		fmt.Fprintf(&out, more, len(results), "files", last, 0)
	}
	return cmp.Or(out.String(), "no matches"), nil
}

func (in *grepping) check() (*regexp.Regexp, error) {
	if in.Fold {
		in.Pattern = "(?i)" + in.Pattern
	}
	re, err := regexp.Compile(in.Pattern)
	switch {
	case err != nil:
		return nil, problem.Invalid("pattern", "a regular expression of RE2, without look-around", fmt.Sprintf("%.80q: %v", in.Pattern, err))
	case !slices.Contains([]string{"", "content", "files_with_matches"}, in.Mode):
		return nil, problem.Invalid("output_mode", "content or files_with_matches", fmt.Sprintf("%.40q", in.Mode))
	}
	return re, in.scope.check(cmp.Or(in.Glob, "**"))
}

// hit is a matching line. If line is 0, it is a matching file.
type hit struct {
	path string
	line int
	text string
}

func (in *grepping) find(re *regexp.Regexp, path string, data []byte) (hits []hit) {
	if bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 { // a binary file has no hits
		return nil
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimRight(line, "\r\n"); path == in.After && n <= in.Line || !re.Match(line) {
			continue
		}
		if in.Mode == "files_with_matches" {
			return []hit{{path, 0, path}}
		}
		text := cut(strings.ToValidUTF8(string(line), "\uFFFD"), maxShown)
		if hits = append(hits, hit{path, n, fmt.Sprintf("%s:%d: %s", path, n, text)}); len(hits) > maxHits {
			break
		}
	}
	return hits
}
