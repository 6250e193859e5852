package functions

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/protocol"
)

type Path struct {
	Pattern      string
	Function     Function
	HeaderPolicy string // origin request policy, which selects the forwarded headers
	CachePolicy  string // cache policy for GET; "" disables caching
}

const (
	CachePerKey = "agents" // caches agent cards for a second, separately for each caller's key
	CachePublic = "public" // caches for as long as Cache-Control allows
)

var DefaultPath = Path{Function: Agent, HeaderPolicy: "tasks", CachePolicy: CachePerKey}

// Paths returns the patterns. CloudFront allows 75 patterns and uses the first one that matches:
//   - Callers append the paths of signed calls to any base URL, so their patterns come first. No
//     admin route ends with these paths.
//   - Answers of the registry may depend on the reader's proof, so only searches and the log are
//     cached.
//   - Public pages come last, because a vacant may be named card.
func Paths() []Path {
	paths := []Path{
		{"*/a2a/message/*", Message, "calls", ""},
		{"*/a2a/chain/*", Message, "calls", ""},
		{"/v/*/reviews/*ingest", Registry, "reads", ""},
		{"/v1/admin/export*", Export, "admin", ""},
		{"/v1/admin/*", Admin, "admin", ""},
	}
	for _, p := range protocol.All {
		for _, pattern := range p.EdgePatterns {
			paths = append(paths, Path{pattern, DefaultPath.Function, DefaultPath.HeaderPolicy, DefaultPath.CachePolicy})
		}
	}
	return append(paths, []Path{
		{"/a2a/v1*", Gateway, "reads", CachePerKey},
		{"/v1/account*", Gateway, "reads", CachePerKey},
		{"/v1/keys*", Gateway, "reads", CachePerKey},
		{"/v1/usage", Gateway, "reads", CachePerKey},
		{"/v1/tasks*", Agent, "tasks", CachePerKey},
		{"/v1/agents*", Agent, "tasks", CachePerKey},
		{"/v1/workspaces*", Agent, "files", CachePerKey},
		{"/v1/work/*", Agent, "tasks", ""},
		{"/v1/bookings*", Gateway, "reads", CachePerKey},
		{"/web/*", Web, "calls", CachePublic},
		{"/v1/search*", Search, "reads", CachePublic},
		{"/v1/query_capability", Search, "reads", ""},
		{"/v1/graduations*", Graduate, "reads", ""},
		{"/v1/checkpoint", Registry, "reads", CachePublic},
		{"/v1/proof/*", Registry, "reads", CachePublic},
		{"/v1/log/*", Registry, "reads", CachePublic},
		{"/v1/*", Registry, "reads", ""},
		{"*/card", Message, "calls", CachePublic},
		{"*/.well-known/*", Agent, "calls", "cards"},
	}...)
}

func Route(path string) Path {
	for _, p := range Paths() {
		if matchesPattern(p.Pattern, path) {
			return p
		}
	}
	return DefaultPath
}

func matchesPattern(pattern, path string) bool {
	// In CloudFront's patterns, * matches any sequence of characters.
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return path == pattern
	}
	rest, ok := strings.CutPrefix(path, first)
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, last)
}
