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

func matchOf(g *registry.Registration, now time.Time) registryclient.Match {
	m := registryclient.Match{
		ID: g.ID, CardHash: g.CardHash.String(), CardBlob: hex.EncodeToString(g.Card),
		Declared: string(encodeDeclared(g.Declared)), Family: g.Family, Visibility: g.Visibility,
		Score: g.Reputation.Score(reputation.SearchDimensions()...),
		State: g.EffectiveState(now), Since: canon.FormatTime(g.Since), Status: string(g.Status),
		Unreached: g.AwaitsProbe, Joined: g.FirstSeq, LastSeq: g.LastSeq, ActorSeq: g.ActorSeq,
		Reputation: g.Reputation, BaseModel: g.BaseModel, Owner: g.Owner, Version: g.Version,
	}
	if g.Hosted {
		m.Name = g.Name
	}
	// A card that cannot be read is omitted. fsck reports it.
	if c, err := card.Parse(g.Card); err == nil {
		m.CardSig = hex.EncodeToString(c.Signature)
	} else {
		m.CardBlob = ""
	}
	if g.ParentProven {
		m.Parent = g.Parent
	} else {
		m.Claimed = g.Parent
	}
	if g.Listing != nil {
		m.Listing, m.Source = g.Listing.Blob(), g.ListingSource
	}
	return m
}

// encodeDeclared encodes a list like Python's json.dumps. The reference stores this encoding and returns
// it as a string.
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
