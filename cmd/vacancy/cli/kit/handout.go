package kit

import (
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/snippet"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// Handout tells callers without an identity how to call a vacant.
type Handout = snippet.Handout

// HandoutOf returns the handout of a vacant, or the zero Handout if the vacant cannot be called. It
// uses only checked or quoted data, because v may come from an untrusted host.
func HandoutOf(v *admin.Vacant) Handout {
	hostURL := endpointHostURL(v)
	if hostURL == "" || v.Closed || v.DeletedAt != "" || v.State.IsRetired() {
		return Handout{}
	}
	keyUse := snippet.KeyNotNeeded
	switch {
	case !v.Price.AdmitsGuests():
		keyUse = snippet.KeyRequired
	case !v.Price.IsFree():
		keyUse = snippet.KeyOptional
	}
	return snippet.NewHandout(hostURL, v.Name, v.ID, keyUse, v.KeylessAccess == string(vacants.KeylessOff))
}

// HandoutOfCard returns the handout of the vacant whose card was fetched at rawURL. The handout has
// the host of rawURL, even if the card names another host.
func HandoutOfCard(rawURL string, c *agents.Card) Handout {
	_, name, _ := strings.Cut(strings.TrimRight(rawURL, "/"), "/v/")
	return snippet.HandoutForCard(VacantHostURL(rawURL), name, c)
}

func endpointHostURL(v *admin.Vacant) string {
	base, ok := strings.CutSuffix(v.Endpoint, "/v/"+v.ID.String()+"/a2a/message/send")
	u, err := url.Parse(base)
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	if base = u.String(); strings.ContainsFunc(base, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return base
}
