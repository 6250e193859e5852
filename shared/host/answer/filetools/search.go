package filetools

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits of an answer. A tool that reaches a limit says how to go on.
const (
	maxAnswer  = 60 << 10 // bytes
	maxLines   = 2000     // of Read
	maxHits    = 100      // of Glob and Grep
	maxEntries = 500      // of LS
	maxFiles   = 500      // that Grep reads
	maxLine    = 2000     // bytes that Read shows of a line
	maxShown   = 300      // bytes that Grep shows of a line
	atOnce     = 8        // files that Grep reads at the same time
	// DefaultGrepBytes limits the bytes that Grep reads if Config.GrepBytes is zero.
	DefaultGrepBytes = 100 << 20
)

func (s *session) read(ctx context.Context, in struct {
	Path   string `json:"file_path" canon:"required"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
}) (string, error) {
	f, data, err := s.open(ctx, in.Path)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", problem.Invalid("file_path", "a text file in UTF-8", fmt.Sprintf("%s with %d other bytes", f.Path, f.Size))
	}
	if len(data) == 0 {
		return "[" + f.Path + " is empty]", nil
	}
	first := max(in.Offset, 1)
	limit := min(max(in.Limit, 0), maxLines)
	var out strings.Builder
	n := 0
	for line := range strings.Lines(string(data)) {
		if n++; n < first {
			continue
		}
		if n >= first+cmp.Or(limit, maxLines) || out.Len() > maxAnswer-maxLine {
			fmt.Fprintf(&out, "[more: read again with offset %d]", n)
			break
		}
		fmt.Fprintf(&out, "%6d\t%s\n", n, cut(strings.TrimRight(line, "\r\n"), maxLine))
	}
	if out.Len() == 0 {
		return "", problem.Invalid("offset", fmt.Sprintf("1 to %d, the number of lines of %s", n, f.Path), fmt.Sprint(in.Offset))
	}
	return out.String(), nil
}

// cut returns the beginning of a line.
func cut(line string, size int) string {
	if len(line) <= size {
		return line
	}
	return strings.ToValidUTF8(line[:size], "") + "…"
}

// place is where a search begins: at the path, after so many of its lines.
type place struct {
	Path string `json:"after_path"`
	Line int    `json:"after_line"`
}

func (p *place) goOn(out *strings.Builder, why, tool string) {
	fmt.Fprintf(out, "[stopped after %s: call %s again with after_path %q", why, tool, p.Path)
	if p.Line > 0 {
		fmt.Fprintf(out, " and after_line %d", p.Line)
	}
	out.WriteString("]")
}

func (s *session) glob(ctx context.Context, in struct {
	Pattern string `json:"pattern" canon:"required"`
	Folder  string `json:"path"`
	After   string `json:"after_path"`
}) (string, error) {
	folder, err := folderPath(in.Folder)
	if err != nil {
		return "", err
	}
	matches, err := globOf(in.Pattern)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	last, n := place{}, 0
	for f, err := range s.files(ctx, folder, in.After) {
		switch {
		case err != nil:
			return "", err
		case f.Path == in.After || !matches(strings.TrimPrefix(f.Path, folder)):
			continue
		case n == maxHits || out.Len() > maxAnswer:
			last.goOn(&out, fmt.Sprintf("%d files", n), "Glob")
			return out.String(), nil
		}
		n, last.Path = n+1, f.Path
		out.WriteString(f.Path + "\n")
	}
	return cmp.Or(out.String(), "no files"), nil
}

// globOf returns a function that reports whether a path matches a pattern: * and ? match within a name, ** also
// slashes, and {a,b} alternatives. A pattern without a slash matches the last name of a path.
func globOf(pattern string) (func(path string) bool, error) {
	if len(pattern) > workspace.MaxPath {
		return nil, problem.Invalid("pattern", fmt.Sprintf("at most %d bytes", workspace.MaxPath), fmt.Sprint(len(pattern)))
	}
	expression, alternatives := "^", 0
	if !strings.Contains(pattern, "/") {
		expression = "^(?:.*/)?"
	}
	for rest := strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/"); rest != ""; {
		c, size := utf8.DecodeRuneInString(rest)
		piece := regexp.QuoteMeta(rest[:size])
		switch {
		case strings.HasPrefix(rest, "**/"):
			piece, size = "(?:.*/)?", 3
		case strings.HasPrefix(rest, "**"):
			piece, size = ".*", 2
		case c == '*':
			piece = "[^/]*"
		case c == '?':
			piece = "[^/]"
		case c == '{':
			piece, alternatives = "(?:", alternatives+1
		case c == '}' && alternatives > 0:
			piece, alternatives = ")", alternatives-1
		case c == ',' && alternatives > 0:
			piece = "|"
		}
		expression, rest = expression+piece, rest[size:]
	}
	re, err := regexp.Compile("(?s)" + expression + "$")
	if err != nil {
		return nil, problem.Invalid("pattern", "a pattern such as src/**/*.go", fmt.Sprintf("%.80q", pattern))
	}
	return re.MatchString, nil
}

func (s *session) list(ctx context.Context, in struct {
	Folder string `json:"path"`
	After  string `json:"after_path"`
}) (string, error) {
	folder, err := folderPath(in.Folder)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	last, n := place{}, 0
	for f, err := range s.files(ctx, folder, in.After) {
		if err != nil {
			return "", err
		}
		rest, ok := strings.CutPrefix(f.Path, folder)
		if !ok {
			continue // in a folder with another spelling
		}
		name, _, isFolder := strings.Cut(rest, "/")
		entry := folder + name
		if isFolder {
			entry += "/"
		}
		if entry == last.Path || entry == in.After || isFolder && strings.HasPrefix(in.After, entry) {
			continue
		}
		if n == maxEntries || out.Len() > maxAnswer {
			last.goOn(&out, fmt.Sprintf("%d entries", n), "LS")
			return out.String(), nil
		}
		n, last.Path = n+1, entry
		if isFolder {
			out.WriteString(entry + "\n")
		} else {
			fmt.Fprintf(&out, "%s\t%d bytes\n", entry, f.Size)
		}
	}
	return cmp.Or(out.String(), "no files"), nil
}

type grepping struct {
	place
	Pattern string `json:"pattern" canon:"required"`
	Folder  string `json:"path"`
	Glob    string `json:"glob"`
	Fold    bool   `json:"ignore_case"`
	Mode    string `json:"output_mode"`
}

// grep searches files in their order, several at the same time.
func (s *session) grep(ctx context.Context, in grepping) (string, error) {
	if !slices.Contains([]string{"", "content", "files_with_matches", "count"}, in.Mode) {
		return "", problem.Invalid("output_mode", "content, files_with_matches or count", fmt.Sprintf("%.40q", in.Mode))
	}
	x, err := newExpression(in.Pattern, in.Fold)
	if err != nil {
		return "", err
	}
	folder, err := folderPath(in.Folder)
	if err != nil {
		return "", err
	}
	matches, err := globOf(cmp.Or(in.Glob, "**"))
	if err != nil {
		return "", err
	}
	in.Line = max(in.Line, 0)
	g := &grep{grepping: in, session: s, x: x, limit: cmp.Or(s.GrepBytes, DefaultGrepBytes)}
	for f, err := range s.files(ctx, folder, in.Path) {
		if err != nil {
			return "", err
		}
		if f.Path == in.Path && in.Line == 0 || !matches(strings.TrimPrefix(f.Path, folder)) {
			continue
		}
		if g.read == maxFiles || g.bytes+f.Size > g.limit {
			if err := g.search(ctx); err == nil && !g.stopped {
				g.last.goOn(&g.out, fmt.Sprintf("%d files with %d bytes", g.read, g.bytes), "Grep")
				g.stopped = true
			} else if err != nil {
				return "", err
			}
			break
		}
		g.read, g.bytes, g.batch = g.read+1, g.bytes+f.Size, append(g.batch, f)
		if len(g.batch) == atOnce {
			if err := g.search(ctx); err != nil {
				return "", err
			}
		}
		if g.stopped {
			break
		}
	}
	if err := g.search(ctx); err != nil {
		return "", err
	}
	return cmp.Or(g.out.String(), "no matches"), nil
}

// grep is a search.
type grep struct {
	grepping
	*session
	x           *expression
	limit       int64
	read, found int // files and hits
	bytes       int64
	batch       []workspace.File // files that are not searched
	last        place
	out         strings.Builder
	stopped     bool
}

// search searches the files of the batch, and writes their hits.
func (g *grep) search(ctx context.Context) error {
	results := make([][]hit, len(g.batch))
	var group errgroup.Group
	for i, f := range g.batch {
		group.Go(func() error {
			data, err := g.Files.Content(ctx, f)
			if problem.Is(err, problem.Damaged) {
				return nil // it was replaced long ago, or verify reports it
			}
			if err == nil {
				results[i] = g.x.find(data, maxHits+g.Line)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, f := range g.batch {
		if g.stopped {
			break
		}
		hits := results[i]
		if f.Path == g.Path {
			hits = slices.DeleteFunc(hits, func(h hit) bool { return h.line <= g.Line })
		}
		g.write(f.Path, hits)
	}
	g.batch = nil
	return nil
}

// write writes the hits in a file.
func (g *grep) write(path string, hits []hit) {
	if g.Mode == "files_with_matches" || g.Mode == "count" {
		if n := len(hits); n > 0 {
			g.found++
			g.out.WriteString(path)
			switch {
			case g.Mode == "count" && n > maxHits:
				fmt.Fprintf(&g.out, ": more than %d", maxHits)
			case g.Mode == "count":
				fmt.Fprintf(&g.out, ": %d", n)
			}
			g.out.WriteString("\n")
		}
		hits = nil
	}
	for _, h := range hits {
		if g.found == maxHits {
			break
		}
		g.found++
		g.last = place{path, h.line}
		fmt.Fprintf(&g.out, "%s:%d: %s\n", path, h.line, h.text)
	}
	if g.found < maxHits && g.out.Len() <= maxAnswer {
		g.last = place{Path: path}
		return
	}
	g.stopped = true
	if g.last.Path != path {
		g.last = place{Path: path}
	}
	g.last.goOn(&g.out, fmt.Sprintf("%d matches", g.found), "Grep")
}

// hit is a line that matches.
type hit struct {
	line int
	text string
}

// expression finds lines.
type expression struct {
	line *regexp.Regexp
	// whole finds out whether a text can have a line that matches, faster than line by line. It may be nil.
	whole *regexp.Regexp
}

func newExpression(pattern string, fold bool) (*expression, error) {
	flags := "(?m)"
	if fold {
		flags = "(?mi)"
	}
	if len(pattern) > 1<<10 {
		return nil, problem.Invalid("pattern", "at most 1024 bytes", fmt.Sprint(len(pattern)))
	}
	re, err := regexp.Compile(flags + pattern)
	if err != nil {
		return nil, problem.Invalid("pattern", "a regular expression of RE2, without look-around", fmt.Sprintf("%.80q: %v", pattern, err))
	}
	x := &expression{line: re}
	if parsed, err := syntax.Parse(flags+pattern, syntax.Perl); err == nil && !hasAnchor(parsed) {
		x.whole = re
	}
	return x, nil
}

// hasAnchor reports whether an expression depends on the beginning or the end of a text, as \A does.
func hasAnchor(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText || slices.ContainsFunc(re.Sub, hasAnchor)
}

// find returns the first lines of a text that match. A binary file has none.
func (x *expression) find(data []byte, limit int) (hits []hit) {
	if bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 || x.whole != nil && bytes.IndexByte(data, '\r') < 0 && !x.whole.Match(data) {
		return nil
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimRight(line, "\r\n"); x.line.Match(line) {
			if hits = append(hits, hit{n, cut(strings.ToValidUTF8(string(line), "\uFFFD"), maxShown)}); len(hits) > limit {
				break
			}
		}
	}
	return hits
}
