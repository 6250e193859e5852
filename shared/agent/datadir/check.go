package datadir

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Finding is the result of checking one part of an export.
type Finding struct {
	Part   string `json:"part"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func AllOK(findings []Finding) bool {
	for _, f := range findings {
		if !f.OK {
			return false
		}
	}
	return true
}

func ReadExport(path string) (Export, error) {
	b, err := readFileLimited(path)
	if err != nil {
		return Export{}, err
	}
	return ParseExport(b)
}

// Check verifies e offline: the key and id, the card's signature, the logbook's chain, and the
// signatures in the chain states. An invalid id ends the check; other faults do not.
func (e *Export) Check() []Finding {
	id, err := identity.ParseID(e.ID)
	if err != nil {
		return []Finding{{"id", false, err.Error()}}
	}
	findings := []Finding{e.checkKey(id), e.checkCard(id), e.checkLogbook(id)}
	if e.Manifest != nil {
		findings = append(findings, e.checkManifest(id))
	}
	return append(findings, e.checkChains(id)...)
}

func (e *Export) checkKey(id identity.ID) Finding {
	key, err := e.seedKey()
	switch {
	case err != nil:
		return Finding{"key", false, err.Error()}
	case key.ID() != id:
		return Finding{"key", false, fmt.Sprintf("the seed is the key of %s, the file says %s", key.ID(), id)}
	}
	return Finding{"key", true, fmt.Sprintf("the seed is the key of %s", id)}
}

func (e *Export) checkCard(id identity.ID) Finding {
	if e.Card == nil {
		return Finding{"card", true, "none"}
	}
	c, err := card.Parse(e.Card)
	switch {
	case err != nil:
		return Finding{"card", false, err.Error()}
	case c.VacantID != id:
		return Finding{"card", false, fmt.Sprintf("it is the card of %s", c.VacantID)}
	case !c.Verify():
		return Finding{"card", false, "its signature does not verify"}
	}
	return Finding{"card", true, "signed by the id"}
}

func (e *Export) checkManifest(id identity.ID) Finding {
	m, err := composite.ParseManifest(e.Manifest)
	if err == nil {
		err = m.Verify()
	}
	switch {
	case err != nil:
		return Finding{"manifest", false, problem.AsError(err).Text()}
	case m.ChildID != id:
		return Finding{"manifest", false, fmt.Sprintf("it belongs to %s", m.ChildID)}
	}
	return Finding{"manifest", true, fmt.Sprintf("signed by the id and its parent %s", m.ParentID)}
}

func (e *Export) checkLogbook(id identity.ID) Finding {
	entries, err := e.parseEntries()
	if err == nil {
		err = logbook.VerifyChain(id, entries)
	}
	if err != nil {
		return Finding{"logbook", false, err.Error()}
	}
	if len(entries) == 0 {
		return Finding{"logbook", false, "it is empty; a logbook begins with an entry"}
	}
	return Finding{"logbook", true, fmt.Sprintf("entries: %d, each linked and signed by the id", len(entries))}
}

func (e *Export) checkChains(id identity.ID) []Finding {
	var invalid []Finding
	seen := map[identity.ID]bool{}
	for _, c := range e.Chains {
		s, err := c.decodeState(id)
		if err == nil && seen[s.Target] {
			err = problem.New(problem.Damaged, "it occurs twice")
		}
		if err == nil {
			err = checkEnvelopes(&s)
		}
		if err != nil {
			invalid = append(invalid, Finding{"chain", false, displayTarget(c.Target) + ": " + err.Error()})
			continue
		}
		seen[s.Target] = true
	}
	if invalid != nil {
		return invalid
	}
	return []Finding{{"chains", true, fmt.Sprintf("targets: %d", len(e.Chains))}}
}

// checkEnvelopes verifies the envelopes in a chain state, which the client may send again.
func checkEnvelopes(s *dispatch.State) error {
	envelopes := slices.Concat(s.Sent, s.Acceptable, s.Overtaken)
	if s.PendingReset != nil {
		envelopes = append(envelopes, *s.PendingReset)
	}
	for _, e := range envelopes {
		if _, ok := e.VerifyBy(s.Self); !ok {
			return problem.New(problem.Damaged, "the signature of call %d does not verify", e.Seq)
		}
	}
	return nil
}

// toBundle returns e's content. Check must have accepted e.
func (e *Export) toBundle() (Bundle, error) {
	key, err := e.seedKey()
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{Key: key}
	if b.Logbook, err = e.parseEntries(); err != nil {
		return Bundle{}, err
	}
	if e.Card != nil {
		c, err := card.Parse(e.Card)
		if err != nil {
			return Bundle{}, err
		}
		b.Card = &c
	}
	b.Agent = e.Agent
	if e.Manifest != nil {
		m, err := composite.ParseManifest(e.Manifest)
		if err != nil {
			return Bundle{}, err
		}
		b.Manifest = &m
	}
	for _, c := range e.Chains {
		s, err := c.decodeState(key.ID())
		if err != nil {
			return Bundle{}, err
		}
		b.Chains = append(b.Chains, s)
	}
	return b, nil
}

func (e *Export) seedKey() (*identity.Key, error) {
	seed, err := hex.DecodeString(e.Seed)
	if err != nil || len(seed) != identity.Size {
		return nil, problem.New(problem.Damaged, "seed_hex: expected 64 hex digits")
	}
	defer clear(seed)
	return identity.KeyFromSeed(seed)
}

func (e *Export) parseEntries() ([]logbook.Entry, error) {
	entries := make([]logbook.Entry, 0, len(e.Logbook))
	for i, line := range e.Logbook {
		entry, err := logbook.ParseLine(line)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func displayTarget(s string) string {
	if id, err := identity.ParseID(s); err == nil {
		return id.Short()
	}
	return quoteTruncated(s)
}
