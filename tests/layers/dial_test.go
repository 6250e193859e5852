package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dialler is the only package of a host that opens connections to addresses that
// somebody else chose. It applies the rules of the vacant that acts
// (shared/README §1, PROTOCOL §14).
const dialler = "shared/host/network/outbound"

// dials are the names, by package, that open a connection or make a client.
var dials = map[string][]string{
	"net":                                   {"Dial", "DialTimeout", "DialIP", "DialTCP", "DialUDP", "DialUnix", "Dialer", "FileConn", "FilePacketConn", "ListenIP", "ListenPacket", "ListenUDP", "ListenMulticastUDP", "ListenUnixgram"},
	"crypto/tls":                            {"Client", "Dial", "DialWithDialer", "Dialer", "QUICClient"},
	"net/http":                              {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "NewFileTransport"},
	"syscall":                               {"Connect", "Sendto", "Sendmsg", "Socket", "RawSyscall", "Syscall"},
	"golang.org/x/sys/unix":                 {"Connect", "Sendto", "Sendmsg", "Socket", "RawSyscall", "Syscall"},
	module + "shared/host/client/dispatch":  {"NewHTTP", "NewClient", "HTTP", "HTTPOptions", "Dial"},
	module + "shared/host/client/discovery": {"Personal", "Client"},
}

// passed are types of dials that are harmless behind a pointer: the code gets the
// value from its caller.
var passed = []string{"Client", "Transport", "HTTP"}

// forbidden are packages of the standard library that no part of a host imports.
var forbidden = []string{"C", "log/syslog", "net/http/httputil", "net/rpc", "net/rpc/jsonrpc", "net/smtp", "os/exec", "plugin"}

// inert are the external modules that a host imports and that open no connection.
// A new module must be reviewed before it is added.
var inert = []string{
	"github.com/RoaringBitmap/roaring/v2", "github.com/anishathalye/porcupine", "github.com/blevesearch/", "github.com/go-jose/go-jose/v4", "github.com/gofrs/flock", "github.com/google/go-cmp/", "github.com/google/jsonschema-go/",
	"github.com/hashicorp/golang-lru/v2",
	"github.com/transparency-dev/", "go.etcd.io/bbolt", "golang.org/x/crypto/", "golang.org/x/mod/sumdb/note", "golang.org/x/sync/",
	"golang.org/x/text/", "golang.org/x/time/rate", "pgregory.net/rapid",
}

// excepted packages and files open connections to addresses that nobody outside
// the host chooses. The values are the reasons.
var excepted = map[string]string{
	"shared/agent/dial.go":                     "a person's own program: whom to call is the person's choice",
	"shared/front/mcpserver":                   "its library serves here; the registry's client sends to a handler in this process",
	"shared/front/onlambda":                    "Lambda's own runtime, and AWS",
	"shared/front/serve/admin.go":              "the admin socket of the same home, for the command line",
	"shared/front/serve/owner.go":              "it sends to handlers of this process",
	"shared/front/serve/socket.go":             "whether another process has this home's socket",
	"shared/host/billing/stripe":               "its library sends by outbound's client, which it is given",
	"shared/host/queue/sqs":                    "AWS",
	"shared/host/keys/custody/kms":             "AWS",
	"shared/host/client/dispatch/http.go":      "a person's own machine: whom to call is the person's choice",
	"shared/host/client/dispatch/localhost.go": "a person's own machine: its loopback",
	"shared/host/client/discovery/endpoint.go": "a person's own machine: a registry on it, and outbound elsewhere",
	"shared/host/registry/search/opensearch":   "the operator's cluster",
	"shared/host/substrate/awsapi":             "AWS, once outbound's guard has agreed",
	"shared/host/substrate/bedrock":            "AWS, once outbound's guard has agreed",
	"shared/host/substrate/mcp":                "its library sends by outbound's client, which it is given",
	"shared/store/blob/s3":                     "AWS",
	"shared/store/dynamo":                      "AWS",
}

// exception returns the reason why a file may open connections, "" if it may not.
func exception(path string, used map[string]bool) string {
	for at, why := range excepted {
		if path == at || strings.HasPrefix(path, at+"/") {
			used[at] = true
			return why
		}
	}
	return ""
}

// opened lists what a file uses that opens connections, or may.
func opened(path, src string, t *testing.T) (found []string) {
	t.Helper()
	var from any
	if src != "" {
		from = src
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, from, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // import paths by the names in the file
	for _, im := range f.Imports {
		of, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := of[strings.LastIndex(of, "/")+1:]
		if im.Name != nil {
			name = im.Name.Name
		}
		names[name] = of
		elsewhere := strings.Contains(strings.Split(of, "/")[0], ".") && !strings.HasPrefix(of, module)
		switch {
		case slices.Contains(forbidden, of):
			found = append(found, of)
		case elsewhere && !slices.ContainsFunc(inert, func(m string) bool { return strings.HasPrefix(of, m) }):
			found = append(found, of)
		case name == "." && dials[of] != nil:
			found = append(found, "."+of)
		}
	}
	behind := map[ast.Node]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr:
			behind[n.X] = true
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok || !slices.Contains(dials[names[pkg.Name]], n.Sel.Name) || behind[n] && slices.Contains(passed, n.Sel.Name) {
				break
			}
			found = append(found, names[pkg.Name]+"."+n.Sel.Name)
		}
		return true
	})
	return found
}

func TestOnlyOutboundOpensConnectionsOutOfAHost(t *testing.T) {
	used, seen := map[string]bool{}, 0
	for _, f := range source(t) {
		if f.test || !strings.HasPrefix(f.path, "shared/") && !strings.HasPrefix(f.path, "functions/") {
			continue
		}
		if f.path == dialler || strings.HasPrefix(f.path, dialler+"/") {
			seen++
			continue
		}
		if strings.HasPrefix(f.path, "shared/host/client/dispatch/") && strings.HasSuffix(filepath.Dir(f.path), "book") || strings.Contains(f.path, "test/") {
			continue // stores of calls, and test harnesses
		}
		ways := opened(filepath.Join("..", "..", f.path), "", t)
		if len(ways) > 0 && exception(f.path, used) == "" {
			t.Errorf("%s opens connections by %s; only %s may", f.path, strings.Join(ways, ", "), dialler)
		}
	}
	if seen == 0 {
		t.Errorf("%s has no file: nothing is proved", dialler)
	}
	for at, why := range excepted {
		if !used[at] {
			t.Errorf("%s (%s) is excepted and opens no connection", at, why)
		}
	}
}

// searches is the only file of a host that uses discovery's Client. The client searches, by a
// transport to this process, and calls nobody.
const searches = "shared/front/mcpserver/registry.go"

// A host that used discovery's Client would call without the rules of the vacant
// that acts.
func TestHostsDoNotCallAsClients(t *testing.T) {
	for f, im := range imports(t) {
		host := !f.test && f.path != searches && (strings.HasPrefix(f.path, "shared/front/") || strings.HasPrefix(f.path, "functions/"))
		if host && (strings.HasPrefix(im, module+"shared/host/client/dispatch") || strings.HasPrefix(im, module+"shared/host/client/discovery")) {
			t.Errorf("%s imports %s, which is for a person's own machine", f.path, im)
		}
	}
}

func TestDialsAreFound(t *testing.T) {
	for body, want := range map[string][]string{
		`import "net"; var c, _ = net.Dial("tcp", "x:1")`:                            {"net.Dial"},
		`import n "net"; var d = n.Dialer{}`:                                         {"net.Dialer"},
		`import "net"; var d *net.Dialer`:                                            {"net.Dialer"},
		`import . "net/http"; var _ = Get`:                                           {".net/http"},
		`import "net/http"; var c = &http.Client{}`:                                  {"net/http.Client"},
		`import "net/http"; var c = new(http.Client)`:                                {"net/http.Client"},
		`import "net/http"; type t struct{ http.Client }`:                            {"net/http.Client"},
		`import "net/http"; var r, _ = http.DefaultClient.Get("x")`:                  {"net/http.DefaultClient"},
		`import "net/http"; var _ = http.DefaultTransport.(*http.Transport)`:         {"net/http.DefaultTransport"},
		`import web "net/http"; var r, _ = web.Post("x", "y", nil)`:                  {"net/http.Post"},
		`import "crypto/tls"; var c, _ = tls.Dial("tcp", "x", nil)`:                  {"crypto/tls.Dial"},
		`import "os/exec"; var c = exec.Command("curl")`:                             {"os/exec"},
		`import _ "golang.org/x/net/websocket"`:                                      {"golang.org/x/net/websocket"},
		`import _ "google.golang.org/grpc"`:                                          {"google.golang.org/grpc"},
		`import "syscall"; var _ = syscall.Connect`:                                  {"syscall.Connect"},
		`import "net/http"; func f(c *http.Client, h http.Handler) {}`:               nil,
		`import "net"; func f(l net.Listener, c net.Conn) { net.Listen("tcp", "") }`: nil,
		`import http "example.com/other"; var _ = http.Get`:                          {"example.com/other"},
	} {
		if diff := cmp.Diff(want, opened("x.go", "package x; "+body, t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
