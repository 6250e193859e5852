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

func (d *api) newServer(config mcptool.ServerConfig) *sdk.Server {
	if config.VacantID == (identity.ID{}) {
		s := mcptool.NewHostServer(config, func(ctx context.Context) mcptool.Host { return requestOf(ctx).host })
		if config.HasAGPTools {
			mcptool.AddAGPTools(s, d.sendAGP)
		}
		if config.NoCalls {
			s.RemoveTools("ask_agent", "get_task", "stop_task")
		}
		return s
	}
	s := mcptool.NewVacantServer(config, func(ctx context.Context) mcptool.Agent { return requestOf(ctx).agent })
	var owner mcptool.OwnerTools
	if config.HasOwnerTools {
		owner.ListChildren, owner.SpawnChild = d.listChildren, d.spawnChild
		if d.Owners.Reviews != nil {
			owner.SubmitReview = d.submitReview
		}
	}
	if config.HasDelegateTools {
		owner.Delegate = d.delegate
	}
	mcptool.AddOwnerTools(s, owner)
	if config.NoCalls {
		s.RemoveTools("ask", "get_task", "stop_task", "vacant_call")
	}
	// The URIs contain the vacant's id, because a name may contain characters that are invalid in
	// URIs.
	baseURI := "vacancy://" + config.VacantID.String()
	addResource := func(name, title, description string, read func(context.Context, *agent) ([]byte, error)) {
		s.AddResource(&sdk.Resource{URI: baseURI + "/" + name, Name: name, Title: title, Description: description, MIMEType: "application/json"},
			func(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				r := requestOf(ctx)
				b, err := read(ctx, r.agent.(*agent))
				if err != nil {
					return nil, r.recordError(err)
				}
				return resourceContents(b), nil
			})
	}
	addResource("card", "Agent card", "the signed agent card, for A2A", func(ctx context.Context, a *agent) ([]byte, error) {
		base, err := d.Plain.Base(a.req.Request)
		if err != nil {
			return nil, err
		}
		return d.Card(ctx, &a.Vacant, base)
	})
	addResource("halo", "Halo", "the signed capability card of the vacant protocol", func(_ context.Context, a *agent) ([]byte, error) {
		d, err := a.describeVacant()
		if err != nil {
			return nil, err
		}
		return httpapi.Encode(struct { // same members as the card page of package message
			ID         string  `json:"vacant_id"`
			Capability *string `json:"capability_text"`
			Endpoint   *string `json:"endpoint"`
			Version    *int64  `json:"halo_version"`
			Blob       string  `json:"capability_card_blob_hex"`
		}{d.ID, d.CapabilityText, d.Endpoint, d.HaloVersion, hex.EncodeToString(a.Vacant.Card)})
	})
	if d.Receipts != nil {
		s.AddResourceTemplate(&sdk.ResourceTemplate{
			URITemplate: baseURI + receiptsPath + "{caller}/{position}", Name: "receipt", Title: "Receipt",
			Description: "the signed receipt of a call that had a price; the receipt URL in an answer ends with the caller, the vacant and the position", MIMEType: "application/json",
		}, d.readReceipt)
	}
	return s
}

const receiptsPath = "/receipts/"

func resourceContents(b []byte) *sdk.ReadResourceResult {
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{Text: string(b), MIMEType: "application/json"}}}
}

// readReceipt reads the receipt of a call with the key of the request.
func (d *api) readReceipt(ctx context.Context, q *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	r := requestOf(ctx)
	_, rest, _ := strings.Cut(q.Params.URI, receiptsPath)
	caller, position, _ := strings.Cut(rest, "/")
	path := call.ReceiptsPrefix + url.PathEscape(caller) + "/" + r.agent.(*agent).Vacant.ID.String() + "/" + url.PathEscape(position)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, sdk.ResourceNotFoundError(q.Params.URI)
	}
	req.RemoteAddr, req.Header = r.RemoteAddr, http.Header{"Authorization": r.Request.Header.Values("Authorization")}
	w := httpapi.NewRecorder(math.MaxInt64)
	d.Receipts.ServeHTTP(w, req)
	switch {
	case w.Status == http.StatusOK:
		return resourceContents(w.Body.Bytes()), nil
	case w.Status >= http.StatusInternalServerError:
		return nil, r.recordError(problem.New(problem.Unavailable, "the receipt cannot be read now; send the request again"))
	}
	return nil, sdk.ResourceNotFoundError(q.Params.URI)
}

// serveCard serves the MCP card of a server (draft SEP-2127).
func (d *api) serveCard(r *request, config mcptool.ServerConfig) error {
	h := r.Header()
	h.Set("Access-Control-Allow-Origin", "*") // pages of all sites may read the card
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		return problem.New(problem.MethodNotAllowed, "%.20s is not allowed here; use GET", r.Method)
	}
	base, err := d.Plain.Base(r.Request)
	if err != nil {
		return err
	}
	endpoint, name := base+message.MCPPath, config.Name
	if config.VacantID != (identity.ID{}) {
		endpoint = base + "/v/" + config.VacantID.String() + message.MCPPath
	}
	if !namePattern.MatchString(name) {
		name = config.VacantID.String()
	}
	body, err := httpapi.Encode(serverCard{
		Schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", Name: reverseHostName(base) + "/" + name, Title: truncate(config.Name), Version: config.Version, Description: truncate(config.Instructions),
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

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// truncate shortens a text to the limit of a card.
func truncate(s string) string {
	const maxRunes = 100
	if r := []rune(s); len(r) > maxRunes {
		return string(r[:maxRunes-1]) + "…"
	}
	return s
}

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
