package admin

import (
	"encoding/json"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Spawning is the body of a spawn, with the members of a
// composite.SpawnRequest. With is the second parent of a D4, by name or id; it
// must be hosted here too, because both sign.
type Spawning struct {
	Path       composite.BirthPath    `json:"path"`
	Name       string                 `json:"name"`
	Capability string                 `json:"capability"`
	Substrate  string                 `json:"substrate,omitempty"`
	Agent      json.RawMessage        `json:"agent,omitempty" canon:"null"` // instead of a substrate
	Tools      []string               `json:"tools,omitempty"`
	Rule       string                 `json:"rule,omitempty"` // the rule that D1 adds
	With       string                 `json:"with,omitempty"`
	Reach      composite.Reachability `json:"reach,omitempty"`
	Outbound   composite.Outbound     `json:"outbound,omitempty"`
}

// Spawned is a new child with its manifest. Unchanged tells the operator that
// the child existed as requested.
type Spawned struct {
	Vacant    Vacant   `json:"vacant"`
	Manifest  Manifest `json:"manifest"`
	Unchanged bool     `json:"unchanged,omitempty"`
}

// Reply implements op.Replier.
func (s *Spawned) Reply(http.Header) int {
	if s.Unchanged {
		return http.StatusOK
	}
	return 0
}

// Sound implements op.Sound: the text is safe to print, and the child is
// bound by a manifest signed by itself and its parent.
func (s *Spawned) Sound() error {
	if err := s.Vacant.Sound(); err != nil {
		return err
	}
	m, err := s.Manifest.Open()
	if err == nil && m.ChildID != s.Vacant.ID {
		err = problem.New(problem.Untrusted, "the host's answer is the manifest of another child")
	}
	return err
}

// Manifest is a child's stored manifest with both signatures. Graduated means
// that the gate opened it; Replaced is the one before.
type Manifest struct {
	Manifest  json.RawMessage `json:"manifest"`
	Graduated bool            `json:"graduated"`
	Replaced  json.RawMessage `json:"replaced,omitempty"`
}

// Open parses m and verifies both signatures, so the host need not be trusted.
func (m *Manifest) Open() (composite.Manifest, error) {
	out, err := composite.Parse(m.Manifest)
	if err == nil {
		err = out.Verify()
	}
	if err != nil {
		return out, problem.Wrap(problem.Untrusted, err, "the host's answer is not a manifest: %s", problem.Of(err).Text())
	}
	return out, nil
}

// Sound implements op.Sound.
func (c *Children) Sound() error {
	for i := range c.Children {
		if err := c.Children[i].Vacant.Sound(); err != nil {
			return err
		}
	}
	return nil
}

// Sound implements op.Sound.
func (p *Plan) Sound() error { return p.Vacant.Sound() }

// Child is a child as its parent sees it, with the outcome of the parent's
// calls. Calls counts all calls it accepted. Of the last Decided of them,
// Failures got no answer, and MedianMS is the median latency of the others in
// milliseconds, null if there are none. CannotAnswer is why the parent did not
// call it (its state, or "deleted"), or ""; such calls are not counted.
type Child struct {
	Vacant    Vacant              `json:"vacant"`
	Path      composite.BirthPath `json:"path"`
	Closed    bool                `json:"closed"`
	Graduated bool                `json:"graduated"`
	Calls     uint64              `json:"calls"`
	Decided   int                 `json:"decided"`
	Failures  int                 `json:"failures"`
	MedianMS  *int64              `json:"p50_ms"`

	UnavailableReason string `json:"cannot_answer,omitempty"`
}

// Children is a page of children. Next is the cursor of the next page, "" after
// the last.
type Children struct {
	Children []Child `json:"children"`
	Next     string  `json:"next"`
}

// Plan is a vacant's plan.
type Plan struct {
	Vacant Vacant          `json:"vacant"`
	Plan   json.RawMessage `json:"plan"`
	Hash   identity.Hash   `json:"plan_hash"`
}

// GraduationSignature is a vacant's signature of a graduation request.
type GraduationSignature struct {
	ID        identity.ID `json:"vacant_id"`
	Party     string      `json:"party"`     // parent or child
	Signature string      `json:"signature"` // hex
}
