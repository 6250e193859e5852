package mcpserver

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const mediaCard = "application/mcp-server-card+json"

const cardPath = "/server-card"

func (d *api) newServer(about mcptool.About) *sdk.Server {
	if about.Of == (identity.ID{}) {
		s := mcptool.OfHost(about, func(ctx context.Context) mcptool.Host { return requestOf(ctx).host })
		if about.AGP {
			mcptool.AddAGP(s, d.sendAGP)
		}
		if about.NoCalls {
			s.RemoveTools("ask_agent", "get_task", "stop_task")
		}
		return s
	}
	s := mcptool.Vacant(about, func(ctx context.Context) mcptool.Agent { return requestOf(ctx).agent })
	var own mcptool.Owner
	if about.Owns {
		own.Children, own.Spawn = d.children, d.spawn
		if d.Owners.Reviews != nil {
			own.Review = d.review
		}
	}
	if about.Delegates {
		own.Delegate = d.delegate
	}
	mcptool.AddOwner(s, own)
	if about.NoCalls {
		s.RemoveTools("ask", "get_task", "stop_task", "vacant_call")
	}
	// The URIs contain the vacant's id, because a name may contain characters that are invalid in
	// URIs.
	baseURI := "vacancy://" + about.Of.String()
	add := func(name, title, description string, read func(context.Context, *agent) ([]byte, error)) {
		s.AddResource(&sdk.Resource{URI: baseURI + "/" + name, Name: name, Title: title, Description: description, MIMEType: "application/json"},
			func(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				r := requestOf(ctx)
				b, err := read(ctx, r.agent.(*agent))
				if err != nil {
					return nil, r.recordError(err)
				}
				return contents(b), nil
			})
	}
	add("card", "Agent card", "the signed agent card, for A2A", func(ctx context.Context, a *agent) ([]byte, error) {
		base, err := d.Agents.Base(a.r.Request)
		if err != nil {
			return nil, err
		}
		return d.Card(ctx, &a.Vacant, base)
	})
	add("halo", "Halo", "the signed capability card of the vacant protocol", func(_ context.Context, a *agent) ([]byte, error) {
		d, err := a.describe()
		if err != nil {
			return nil, err
		}
		return httpapi.Encode(struct { // the form in which package message serves it
			ID         string  `json:"vacant_id"`
			Capability *string `json:"capability_text"`
			Endpoint   *string `json:"endpoint"`
			Version    *int64  `json:"halo_version"`
			Blob       string  `json:"capability_card_blob_hex"`
		}{d.ID, d.Capability, d.Endpoint, d.Halo, hex.EncodeToString(a.Vacant.Card)})
	})
	if d.Receipts != nil {
		s.AddResourceTemplate(&sdk.ResourceTemplate{
			URITemplate: baseURI + receipts + "{caller}/{position}", Name: "receipt", Title: "Receipt",
			Description: "the signed receipt of a call that had a price; the receipt URL in an answer ends with the caller, the vacant and the position", MIMEType: "application/json",
		}, d.receipt)
	}
	return s
}

// receipts is the path of receipts below a vacant's URI.
const receipts = "/receipts/"

func contents(b []byte) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{Text: string(b), MIMEType: "application/json"}}}
}

// receipt reads the receipt of a call with the key of the request.
func (d *api) receipt(ctx context.Context, q *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	r := requestOf(ctx)
	_, rest, _ := strings.Cut(q.Params.URI, receipts)
	caller, position, _ := strings.Cut(rest, "/")
	path := call.ReceiptsPrefix + url.PathEscape(caller) + "/" + r.agent.(*agent).Vacant.ID.String() + "/" + url.PathEscape(position)
	read, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, sdk.ResourceNotFoundError(q.Params.URI)
	}
	read.RemoteAddr, read.Header = r.RemoteAddr, http.Header{"Authorization": r.Request.Header.Values("Authorization")}
	w := httpapi.NewRecorder(math.MaxInt64)
	d.Receipts.ServeHTTP(w, read)
	switch {
	case w.Status == http.StatusOK:
		return contents(w.Body.Bytes()), nil
	case w.Status >= http.StatusInternalServerError:
		return nil, r.recordError(problem.New(problem.Unavailable, "the receipt cannot be read now; send the request again"))
	}
	return nil, sdk.ResourceNotFoundError(q.Params.URI)
}

// serverCard serves the MCP card of a server (draft SEP-2127).
func (d *api) serverCard(r *request, about mcptool.About) error {
	h := r.Header()
	h.Set("Access-Control-Allow-Origin", "*") // pages of all sites may read the card
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use GET", r.Method)
	}
	base, err := d.Agents.Base(r.Request)
	if err != nil {
		return err
	}
	endpoint, name := base+message.MCPPath, about.Name
	if about.Of != (identity.ID{}) {
		endpoint = base + "/v/" + about.Of.String() + message.MCPPath
	}
	if !plainName.MatchString(name) {
		name = about.Of.String()
	}
	body, err := httpapi.Encode(serverCard{
		Schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", Name: reverseHostName(base) + "/" + name, Title: clip(about.Name), Version: about.Version, Description: clip(about.Instructions),
		Remotes: []remote{{Type: "streamable-http", URL: endpoint, Versions: versions}},
	})
	if err != nil {
		return err
	}
	etag := fmt.Sprintf("%q", identity.Sum(body).String()[:32])
	h.Set("ETag", etag)
	h.Set("Cache-Control", "public, max-age=60")
	if strings.Contains(strings.Join(r.Request.Header.Values("If-None-Match"), ","), etag) {
		r.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", mediaCard)
	httpapi.Send(r.ResponseWriter, http.StatusOK, body)
	return nil
}

type serverCard struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	Remotes     []remote `json:"remotes"`
}

type remote struct {
	Type     string   `json:"type"`
	URL      string   `json:"url"`
	Versions []string `json:"supportedProtocolVersions"`
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// clip returns at most 100 characters of a text, which is the limit in a card.
func clip(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// reverseHostName returns the host name of a base URL with its labels in reverse order.
func reverseHostName(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), ":") {
		return "localhost"
	}
	if net.ParseIP(u.Hostname()) != nil {
		return u.Hostname()
	}
	labels := strings.Split(u.Hostname(), ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
