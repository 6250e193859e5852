package registryapi

import (
	"encoding/hex"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
)

func newMatch(reg *registry.Registration, now time.Time) registryclient.Match {
	m := registryclient.Match{
		ID: reg.ID, CardHash: reg.CardHash.String(), CardBlob: hex.EncodeToString(reg.Card),
		DeclaredCapabilities: string(encodeDeclared(reg.DeclaredCapabilities)), Family: reg.Family, Visibility: reg.Visibility,
		Score: reg.Reputation.Score(reputation.SearchDimensions()...),
		State: reg.EffectiveState(now), Since: canon.FormatTime(reg.StateSince), Status: string(reg.Status),
		AwaitsProbe: reg.AwaitsProbe, FirstSeq: reg.FirstSeq, LastSeq: reg.LastSeq, ActorSeq: reg.ActorSeq,
		Reputation: reg.Reputation, BaseModel: reg.BaseModel, Owner: reg.Owner, Version: reg.Version,
	}
	if reg.Hosted {
		m.Name = reg.Name
	}
	// An unreadable card is omitted. fsck reports it.
	if c, err := card.Parse(reg.Card); err == nil {
		m.CardSig = hex.EncodeToString(c.Signature)
	} else {
		m.CardBlob = ""
	}
	if reg.ParentProven {
		m.Parent = reg.Parent
	} else {
		m.Claimed = reg.Parent
	}
	if reg.Listing != nil {
		m.Listing, m.ListingSource = reg.Listing.Blob(), reg.ListingSource
	}
	return m
}

// encodeDeclared encodes a list like Python's json.dumps, because the reference returns this
// encoding as a string.
func encodeDeclared(list []string) []byte {
	b := []byte{'['}
	for i, s := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = canon.AppendStringASCII(b, s)
	}
	return append(b, ']')
}
