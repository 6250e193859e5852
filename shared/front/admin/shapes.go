package admin

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Vacant is the JSON form of a hosted vacant. Times are wire timestamps (UTC, PROTOCOL §3).
type Vacant struct {
	ID           identity.ID     `json:"vacant_id"`
	Name         string          `json:"name"`
	State        lifecycle.State `json:"state"`
	Capability   string          `json:"capability_text"`
	Substrate    string          `json:"substrate"`
	AgentVersion int             `json:"agent_version,omitempty"`
	Endpoint     string          `json:"endpoint"`
	Card         json.RawMessage `json:"card"`
	CreatedAt    string          `json:"created"`
	ChangedAt    string          `json:"changed"`
	Parent       *identity.ID    `json:"parent_id,omitempty"`
	Closed       bool            `json:"closed,omitempty"`
	Tenant       string          `json:"tenant,omitempty"`
	// KeylessAccess is the setting for callers without a key. "" means open.
	KeylessAccess string       `json:"plain,omitempty"`
	Price         *price.Price `json:"price,omitempty"` // nil if calls are free
	// CallTimeout limits the duration of a call, for example "5m0s". "" means the host's limit.
	CallTimeout string `json:"work,omitempty"`
	Memory      bool   `json:"memory,omitempty"` // the agent remembers the calls of a conversation
	// Only ListVacants and ShowVacant set Published, CallsToday and NoWorker. CallsToday is nil if
	// the usage is unknown or too large to sum up for a list.
	Published  lifecycle.Visibility `json:"published,omitempty"`
	CallsToday *uint64              `json:"calls_today,omitempty"`
	NoWorker   bool                 `json:"no_worker,omitempty"`
	DeletedAt  string               `json:"deleted,omitempty"`
}

func vacantOf(r *vacants.Record) Vacant {
	v := Vacant{
		ID: r.ID, Name: r.Name, State: r.State, Capability: r.Capability, Substrate: r.Substrate, AgentVersion: r.AgentVersion,
		Card: json.RawMessage("null"), CreatedAt: canon.FormatTime(r.CreatedAt), ChangedAt: canon.FormatTime(r.ChangedAt),
		Parent: r.Parent, Closed: r.Closed, Tenant: r.Tenant, KeylessAccess: string(r.KeylessAccess), Memory: r.Memory,
	}
	if c, err := card.Parse(r.Card); err == nil { // a damaged card is omitted; fsck reports it
		v.Card, v.Endpoint = r.Card, c.Endpoint
	}
	if !r.Price.IsFree() {
		v.Price = r.Price
	}
	if r.CallTimeout != 0 {
		v.CallTimeout = r.CallTimeout.String()
	}
	if r.IsDeleted() {
		v.DeletedAt = canon.FormatTime(r.DeletedAt)
	}
	return v
}

// Validate implements op.Validator. Clients print the texts on a terminal and use the name as a
// file name, so they must refuse an invalid answer.
func (v *Vacant) Validate() error {
	_, err := lifecycle.ParseState(string(v.State))
	if invalid := registry.CheckName(v.Name); invalid != nil {
		err = invalid
	}
	if v.Published != "" {
		if invalid := checkVisibility(v.Published); invalid != nil {
			err = invalid
		}
	}
	for _, timestamp := range []string{v.CreatedAt, v.ChangedAt, v.DeletedAt} {
		if _, invalid := canon.ParseTime(timestamp); timestamp != "" && invalid != nil {
			err = invalid
		}
	}
	if err != nil {
		return problem.Wrap(problem.Untrusted, err, "the host's answer is not a vacant: %s", problem.AsError(err).Text())
	}
	return nil
}

// VacantPage is a page of vacants, sorted by name.
type VacantPage struct {
	Vacants []Vacant `json:"vacants"`
	Next    string   `json:"next"`
}

func (p *VacantPage) Validate() error {
	for i := range p.Vacants {
		if err := p.Vacants[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

type Entry struct {
	Position  uint64          `json:"position"`
	Hash      identity.Hash   `json:"hash"`
	Kind      string          `json:"kind"`
	Payload   json.RawMessage `json:"payload"`
	Prev      identity.Hash   `json:"prev_hash"`
	Signature string          `json:"signature"`
	Time      string          `json:"ts"`
}

// Logbook is a page of a logbook. Next is the position of the next page, or 0 if the page is empty.
type Logbook struct {
	Entries []Entry `json:"entries"`
	Next    uint64  `json:"next"`
}

func (l *Logbook) Validate() error {
	for i := range l.Entries {
		if _, err := canon.ParseTime(l.Entries[i].Time); err != nil {
			return problem.Wrap(problem.Untrusted, err, "the host's answer: a logbook entry has no time")
		}
	}
	return nil
}
