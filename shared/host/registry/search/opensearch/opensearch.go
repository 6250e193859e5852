// Package opensearch implements search.Index in an OpenSearch 2 cluster, for hosts with too many
// cards for an index inside one process. It cuts texts into words itself, because the text analysis
// of clusters differs between versions and plugins.
//
// A cluster has no atomic batches. Instead, only Apply refreshes the index, so writes remain
// invisible until all are done, and the mark is written last. After a failed Apply, the old mark
// causes the same changes to be applied again.
package opensearch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/opensearch-project/opensearch-go/v4"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type Config struct {
	// URL is the URL of the cluster. It must use https, or http with a loopback address.
	URL                string
	Username, Password string
	// Name consists of a-z, 0-9 and '-'. The default is "vacancy-cards".
	Name string
	// Shards defaults to 1, which is enough for some million cards.
	Shards, Replicas int
	// Transport may be nil.
	Transport http.RoundTripper
}

const (
	defaultName = "vacancy-cards"
	// formatVersion changes whenever the mapping or the fields of documents change. It is part of
	// the index's real name, so a program with another format creates an empty index, which is then
	// filled from the store.
	formatVersion = "4"
	// The client retries on another node after responseTimeout.
	responseTimeout = 10 * time.Second
	maxRetries      = 2
)

type Index struct {
	client *opensearch.Client
	// name is an alias. Writes require that the alias exists, so that a cluster cannot create an
	// index with a default mapping.
	name         string
	ownTransport *http.Transport // nil if the caller has configured a transport

	mu     sync.RWMutex // read-locked by uses of the index, write-locked by Close
	closed bool
}

func Open(ctx context.Context, cfg Config) (*Index, error) {
	name, err := cfg.check()
	if err != nil {
		return nil, err
	}
	x := &Index{name: name}
	transport := cfg.Transport
	if transport == nil {
		x.ownTransport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: responseTimeout,
			MaxIdleConnsPerHost:   32,
			IdleConnTimeout:       time.Minute,
			ForceAttemptHTTP2:     true,
		}
		transport = x.ownTransport
	}
	x.client, err = opensearch.NewClient(opensearch.Config{
		Addresses: []string{cfg.URL}, Username: cfg.Username, Password: cfg.Password,
		Transport: limitedTransport{transport}, MaxRetries: maxRetries,
		RetryOnStatus: []int{
			http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		},
		RetryBackoff: func(attempt int) time.Duration { return time.Duration(attempt) * 50 * time.Millisecond },
	})
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "the client of the search index cannot be created")
	}
	if err := x.createIfAbsent(ctx, cfg); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func (c *Config) check() (string, error) {
	endpoint, err := url.Parse(c.URL)
	if err != nil || endpoint.Host == "" || endpoint.User != nil || endpoint.RawQuery != "" || endpoint.Fragment != "" {
		return "", problem.Invalid("the search index's URL", "https://HOST with neither user nor query", fmt.Sprintf("%q", c.URL))
	}
	ip := net.ParseIP(endpoint.Hostname())
	loopback := endpoint.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if endpoint.Scheme != "https" && !(endpoint.Scheme == "http" && loopback) {
		return "", problem.Invalid("the search index's URL", "https, or http on a loopback address", fmt.Sprintf("%q", c.URL))
	}
	name := c.Name
	name = cmp.Or(name, defaultName)
	hasInvalidRune := strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
	if hasInvalidRune || name[0] == '-' || len(name) > 200 {
		return "", problem.Invalid("the search index's name", "up to 200 of a-z, 0-9 and '-', not beginning with '-'", fmt.Sprintf("%q", name))
	}
	if c.Shards < 0 || c.Replicas < 0 {
		return "", problem.Invalid("the search index's shards and replicas", "0 or more", fmt.Sprintf("%d and %d", c.Shards, c.Replicas))
	}
	return name, nil
}

func (x *Index) createIfAbsent(ctx context.Context, cfg Config) error {
	settings := indexBody(x.name, max(cfg.Shards, 1), cfg.Replicas)
	err := x.sendJSON(ctx, http.MethodPut, "/"+x.name+"-"+formatVersion, nil, settings, nil)
	if respErr, ok := errors.AsType[*responseError](err); ok && respErr.Type == "resource_already_exists_exception" {
		return nil
	}
	return err
}

func (x *Index) Count(ctx context.Context) (int, error) {
	var resp struct {
		Count int `json:"count"`
	}
	err := x.whileOpen(func() error {
		return x.sendJSON(ctx, http.MethodPost, "/"+x.name+"/_count", nil, object{"query": entryClause()}, &resp)
	})
	return resp.Count, err
}

func (x *Index) Mark(ctx context.Context) (string, error) {
	var resp struct {
		Source struct {
			Mark string `json:"mark"`
		} `json:"_source"`
	}
	err := x.whileOpen(func() error {
		err := x.sendJSON(ctx, http.MethodGet, "/"+x.name+"/_doc/"+markID, nil, nil, &resp)
		// A missing document is not an error, but a missing index is.
		if respErr, ok := errors.AsType[*responseError](err); ok && respErr.Status == http.StatusNotFound && respErr.Type == "" {
			return nil
		}
		return err
	})
	return resp.Source.Mark, err
}

// Close waits for running calls. Later calls return Unavailable.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed && x.ownTransport != nil {
		x.ownTransport.CloseIdleConnections()
	}
	x.closed = true
	return nil
}

func (x *Index) whileOpen(fn func() error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return unavailableError(errors.New("the index is closed"))
	}
	return fn()
}

func unavailableError(err error) error {
	return problem.Wrap(problem.Unavailable, err, "the search index cannot be used")
}

var _ search.Index = (*Index)(nil)
