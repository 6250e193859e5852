package admin

import (
	"encoding/json"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Spawning is the body of a spawn request. SecondParent is a second parent on this host. It is set
// only if Path is D4, the birth path with two parents (PROTOCOL §11).
type Spawning struct {
	Path           composite.BirthPath      `json:"path"`
	Name           string                   `json:"name"`
	Capability     string                   `json:"capability"`
	Substrate      string                   `json:"substrate,omitempty"`
	Agent          json.RawMessage          `json:"agent,omitempty" canon:"null"`
	Tools          []string                 `json:"tools,omitempty"`
	Rule           string                   `json:"rule,omitempty"` // additional rule of the child, only for birth path D1
	SecondParent   string                   `json:"with,omitempty"`
	Reachability   composite.Reachability   `json:"reach,omitempty"`
	OutboundPolicy composite.OutboundPolicy `json:"outbound,omitempty"`
}

// Spawned is a child with its manifest. Unchanged is true if the child already existed as
// requested.
type Spawned struct {
	Vacant    Vacant   `json:"vacant"`
	Manifest  Manifest `json:"manifest"`
	Unchanged bool     `json:"unchanged,omitempty"`
}

func (s *Spawned) SetHeaders(http.Header) int {
	if s.Unchanged {
		return http.StatusOK
	}
	return 0
}

// Validate returns an error unless the child and its parent have signed the manifest.
func (s *Spawned) Validate() error {
	if err := s.Vacant.Validate(); err != nil {
		return err
	}
	m, err := s.Manifest.Open()
	if err == nil && m.ChildID != s.Vacant.ID {
		err = problem.New(problem.Untrusted, "the host's answer is the manifest of another child")
	}
	return err
}

// Manifest is a child's stored manifest with both signatures. Replaced is the previous manifest.
type Manifest struct {
	Manifest  json.RawMessage `json:"manifest"`
	Graduated bool            `json:"graduated"`
	Replaced  json.RawMessage `json:"replaced,omitempty"`
}

// Open parses m and verifies both signatures, so the host need not be trusted.
func (m *Manifest) Open() (composite.Manifest, error) {
	out, err := composite.ParseManifest(m.Manifest)
	if err == nil {
		err = out.Verify()
	}
	if err != nil {
		return out, problem.Wrap(problem.Untrusted, err, "the host's answer is not a manifest: %s", problem.AsError(err).Text())
	}
	return out, nil
}

func (c *Children) Validate() error {
	for i := range c.Children {
		if err := c.Children[i].Vacant.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) Validate() error { return p.Vacant.Validate() }

// Child is a child with the outcome of its parent's calls. FailedCalls and MedianLatencyMS describe
// the last DecidedCalls calls. If the parent cannot call the child, UnavailableReason is the
// child's state or "deleted".
type Child struct {
	Vacant          Vacant              `json:"vacant"`
	Path            composite.BirthPath `json:"path"`
	Closed          bool                `json:"closed"`
	Graduated       bool                `json:"graduated"`
	Calls           uint64              `json:"calls"`
	DecidedCalls    int                 `json:"decided"`
	FailedCalls     int                 `json:"failures"`
	MedianLatencyMS *int64              `json:"p50_ms"`

	UnavailableReason string `json:"cannot_answer,omitempty"`
}

type Children struct {
	Children []Child `json:"children"`
	Next     string  `json:"next"`
}

type Plan struct {
	Vacant Vacant          `json:"vacant"`
	Plan   json.RawMessage `json:"plan"`
	Hash   identity.Hash   `json:"plan_hash"`
}

type GraduationSignature struct {
	ID        identity.ID `json:"vacant_id"`
	Party     string      `json:"party"`
	Signature string      `json:"signature"`
}
