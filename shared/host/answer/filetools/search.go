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
	maxAnswerBytes     = 60 << 10
	maxReadLines       = 2000      // per call of Read
	maxGrepHits        = 100       // per call of Grep
	maxListEntries     = 500       // per call of Glob or LS
	maxGrepFiles       = 500       // per call of Grep
	maxReadLineBytes   = 2000      // bytes per line that Read shows
	maxGrepLineBytes   = 300       // bytes per line that Grep shows
	maxGrepBytes       = 100 << 20 // default of Config.GrepBytes
	maxConcurrentReads = 8         // files that Grep reads concurrently
)

func (s *session) readLines(ctx context.Context, in struct {
	target
	Offset int `json:"offset,omitempty" jsonschema:"the first line"`
	Limit  int `json:"limit,omitempty" jsonschema:"the number of lines"`
}) (string, error) {
	f, data, err := s.readAndLog(ctx, in.Path)
	switch {
	case err != nil:
		return "", err
	case !utf8.Valid(data):
		return "", problem.Invalid("file_path", "a text file in UTF-8", fmt.Sprintf("%s, a file of %d bytes that is not UTF-8", f.Path, f.Size))
	case in.Limit < 1 || in.Limit > maxReadLines:
		in.Limit = maxReadLines
	}
	var out strings.Builder
	lines := slices.Collect(strings.Lines(string(data)))
	first := max(in.Offset, 1)
	for n := first; n <= len(lines); n++ {
		if n == first+in.Limit || out.Len() > maxAnswerBytes-maxReadLineBytes {
			fmt.Fprintf(&out, "[more: read again with offset %d]", n)
			break
		}
		fmt.Fprintf(&out, "%6d\t%s\n", n, truncateLine(strings.TrimRight(lines[n-1], "\r\n"), maxReadLineBytes))
	}
	return cmp.Or(out.String(), fmt.Sprintf("[%s has %d lines]", f.Path, len(lines))), nil
}

func truncateLine(line string, size int) string {
	if len(line) <= size {
		return line
	}
	return strings.ToValidUTF8(line[:size], "") + "…"
}

// scope is the part of a workspace that a tool searches.
type scope struct {
	Folder    string `json:"path,omitempty" jsonschema:"the folder; the default is the workspace"`
	AfterPath string `json:"after_path,omitempty" jsonschema:"where to go on, as an earlier answer says"`
	glob      *regexp.Regexp
}

func (q *scope) check(pattern string) (err error) {
	if q.glob, err = compileGlob(pattern); err != nil {
		return err
	}
	if strings.Trim(q.Folder, "./") == "" && !strings.Contains(q.Folder, "..") {
		q.Folder = ""
		return nil
	}
	q.Folder, err = normalizePath(q.Folder)
	q.Folder += "/"
	return err
}

var (
	wildcards    = strings.NewReplacer(`\*\*/`, "(?:.*/)?", `\*\*`, ".*", `\*`, "[^/]*", `\?`, "[^/]", `\{`, "(?:", `\}`, ")")
	alternatives = regexp.MustCompile(`\\\{.*?\\\}`)
)

// compileGlob translates a pattern to a regular expression for paths. A pattern without a slash
// matches the last name of a path.
func compileGlob(pattern string) (*regexp.Regexp, error) {
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

// searchFiles lists the files of a scope that the agent may read, starting at the path q.AfterPath.
func (s *session) searchFiles(ctx context.Context, q scope) iter.Seq2[workspace.File, error] {
	const pageSize = 500
	candidates := store.Flatten(store.AllPages(func(cursor string) ([]workspace.File, string, error) {
		return s.Files.ListFiles(ctx, s.workspaceRef, q.Folder, pageSize, cursor)
	}))
	return func(yield func(workspace.File, error) bool) {
		for f, err := range candidates {
			rest, ok := strings.CutPrefix(f.Path, q.Folder) // a folder may exist in several spellings
			isListed := ok && q.glob.MatchString(rest) && s.canRead(f.Path) && workspace.FoldPath(f.Path) >= workspace.FoldPath(q.AfterPath)
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
	return s.listEntries(ctx, "Glob", in.scope, in.Pattern, false)
}

func (s *session) listFolder(ctx context.Context, in scope) (string, error) {
	return s.listEntries(ctx, "LS", in, "**", true)
}

// listEntries lists the files of a scope. If isShallow is true, it lists each subfolder as one
// entry.
func (s *session) listEntries(ctx context.Context, tool string, q scope, pattern string, isShallow bool) (string, error) {
	if err := q.check(pattern); err != nil {
		return "", err
	}
	var out strings.Builder
	lastEntry, n := q.AfterPath, 0
	for f, err := range s.searchFiles(ctx, q) {
		if err != nil {
			return "", err
		}
		entry := f.Path
		if name, _, isBelow := strings.Cut(entry[len(q.Folder):], "/"); isShallow && isBelow {
			entry = q.Folder + name + "/"
		}
		if entry == lastEntry {
			continue
		}
		if n == maxListEntries || out.Len() > maxAnswerBytes {
			fmt.Fprintf(&out, "[stopped after %d entries: call %s again with after_path %q]", n, tool, lastEntry)
			break
		}
		n, lastEntry = n+1, entry
		out.WriteString(entry + "\n")
	}
	return cmp.Or(out.String(), "no files"), nil
}

type grepArguments struct {
	scope
	Pattern    string `json:"pattern" canon:"required,max=1024" jsonschema:"the expression"`
	Glob       string `json:"glob,omitempty" canon:"max=400" jsonschema:"only files that match this pattern"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"take upper and lower case as equal"`
	Mode       string `json:"output_mode,omitempty" jsonschema:"content or files_with_matches; the default is content"`
	AfterLine  int    `json:"after_line,omitempty" jsonschema:"where to go on, as an earlier answer says"`
}

func (s *session) searchLines(ctx context.Context, in grepArguments) (string, error) {
	re, err := in.check()
	if err != nil {
		return "", err
	}
	var results []*[]hit
	var hitCount atomic.Int64
	lastPath, totalBytes, isStopped := "", int64(0), false
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReads)
	for f, err := range s.searchFiles(ctx, in.scope) {
		if f.Path == in.AfterPath && in.AfterLine <= 0 && err == nil {
			continue
		}
		isStopped = len(results) == maxGrepFiles || totalBytes+f.Size > cmp.Or(s.GrepBytes, maxGrepBytes)
		if isStopped || hitCount.Load() > maxGrepHits { // searches of all earlier files have started
			break
		}
		hits := new([]hit)
		results, lastPath, totalBytes = append(results, hits), f.Path, totalBytes+f.Size
		group.Go(func() error {
			if err != nil {
				return err
			}
			data, err := s.Files.ReadContent(ctx, f)
			if problem.Is(err, problem.Damaged) {
				return nil // the file was replaced or is damaged; verify reports damage
			}
			*hits = in.findHits(re, f.Path, data)
			hitCount.Add(int64(len(*hits)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	const stoppedFormat = "[stopped after %d %s: call Grep again with after_path %q and after_line %d]"
	var out strings.Builder
	n, lastHit := 0, hit{}
	for _, hits := range results {
		for _, h := range *hits {
			if n == maxGrepHits || out.Len() > maxAnswerBytes {
				fmt.Fprintf(&out, stoppedFormat, n, "matches", lastHit.path, lastHit.line)
				return out.String(), nil
			}
			n, lastHit = n+1, h
			out.WriteString(h.text + "\n")
		}
	}
	if isStopped {
		fmt.Fprintf(&out, stoppedFormat, len(results), "files", lastPath, 0)
	}
	return cmp.Or(out.String(), "no matches"), nil
}

func (in *grepArguments) check() (*regexp.Regexp, error) {
	if in.IgnoreCase {
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

func (in *grepArguments) findHits(re *regexp.Regexp, path string, data []byte) (hits []hit) {
	if bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 { // a binary file has no hits
		return nil
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimRight(line, "\r\n"); path == in.AfterPath && n <= in.AfterLine || !re.Match(line) {
			continue
		}
		if in.Mode == "files_with_matches" {
			return []hit{{path, 0, path}}
		}
		text := truncateLine(strings.ToValidUTF8(string(line), "\uFFFD"), maxGrepLineBytes)
		if hits = append(hits, hit{path, n, fmt.Sprintf("%s:%d: %s", path, n, text)}); len(hits) > maxGrepHits {
			break
		}
	}
	return hits
}
