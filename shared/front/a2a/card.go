package a2a

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/jws"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type cardForm uint8

const (
	unionCard cardForm = iota // members of 1.0 and 0.3
	pureCard                  // only members of 1.0, for readers that reject unknown members
	snakeCard                 // 1.0 in snake case, for a client that reads only snake case
)

func (a *api) serveCard(r *request) error {
	base, err := a.Base(r.Request)
	if err != nil {
		return err
	}
	form := unionCard
	v := r.requestedVersion()
	switch {
	case strings.HasPrefix(r.UserAgent(), "harbor-a2a/"):
		form = snakeCard
	case r.Options.PureCard, v == version1 || strings.HasPrefix(v, version1+"."):
		form = pureCard
	}
	c, err := a.cards.cardFor(r.Context(), a, &r.Vacant, base, form)
	if err != nil {
		return err
	}
	h := r.ResponseWriter.Header()
	h.Set("Vary", "A2A-Version, User-Agent")
	a.servePage(r, c, "max-age=60")
	return nil
}

func (a *api) serveKeySet(r *request) error {
	id := r.Vacant.ID
	body := canon.NewObject(member("keys", canon.NewArray(canon.NewObject(
		textMember("kty", "OKP"), textMember("crv", "Ed25519"), textMember("alg", "EdDSA"), textMember("use", "sig"),
		textMember("kid", id.String()), textMember("x", base64.RawURLEncoding.EncodeToString(id[:])),
	)))).AppendCJ(nil)
	a.servePage(r, newPublicPage(body, r.Vacant.CreatedAt), "max-age=86400")
	return nil
}

type publicPage struct {
	body     []byte
	etag     string
	modified time.Time
}

func newPublicPage(body []byte, modified time.Time) *publicPage {
	return &publicPage{body, `"` + identity.Sum(body).String()[:32] + `"`, modified.UTC().Truncate(time.Second)}
}

func (a *api) servePage(r *request, p *publicPage, cacheControl string) {
	h := r.ResponseWriter.Header()
	h.Set("Cache-Control", "public, "+cacheControl)
	h.Set("ETag", p.etag)
	h.Set("Last-Modified", p.modified.Format(http.TimeFormat))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", mediaJSON)
	// ServeContent uses the headers above to answer conditional requests.
	http.ServeContent(r.ResponseWriter, r.Request, "", p.modified, strings.NewReader(string(p.body)))
	r.Log("ok", http.StatusOK, nil)
}

// cardCache caches signed cards, because KMS charges for each signature.
type cardCache struct {
	mu    sync.Mutex
	pages map[cardKey]*publicPage
}

type cardKey struct {
	id            identity.ID
	recordChanged time.Time
	base          string
	issuers       string
	form          cardForm
}

const maxCachedCards = 1024

func (c *cardCache) cardFor(ctx context.Context, d *api, v *vacants.Record, base string, form cardForm) (*publicPage, error) {
	var issuers []string
	if d.Issuers != nil && d.AcceptsKeys(v) {
		var err error
		if issuers, err = d.Issuers(ctx, v); err != nil {
			return nil, err
		}
	}
	key := cardKey{v.ID, v.ChangedAt, base, strings.Join(issuers, " "), form}
	c.mu.Lock()
	cached := c.pages[key]
	c.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	body, err := d.buildSignedCard(ctx, v, base, issuers, form)
	if err != nil {
		return nil, err
	}
	cached = newPublicPage(body, v.ChangedAt)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pages) >= maxCachedCards {
		clear(c.pages)
	}
	c.pages[key] = cached
	return cached, nil
}

func textMember(key, s string) canon.Member         { return canon.Member{Key: key, Value: canon.NewString(s)} }
func member(key string, v canon.Value) canon.Member { return canon.Member{Key: key, Value: v} }
func textArray(values ...string) canon.Value {
	items := make([]canon.Value, len(values))
	for i, s := range values {
		items[i] = canon.NewString(s)
	}
	return canon.NewArray(items...)
}

// buildSignedCard signs a card several times, because clients reconstruct the signed bytes in
// different ways: from the JSON as served, from the members of 1.0, or from the members of 0.3 in
// ASCII. Clients that decode a card into types lose members with default values, so the card has no
// such members.
func (a *api) buildSignedCard(ctx context.Context, v *vacants.Record, base string, issuers []string, form cardForm) ([]byte, error) {
	halo, err := card.Parse(v.Card)
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the stored card of %s is damaged", v.ID.Short())
	}
	b := cardBuilder{record: v, halo: &halo, url: base + "/v/" + v.ID.String(), hasPush: a.Push != nil, acceptsKeys: a.AcceptsKeys(v), hasExtendedCard: a.hasExtendedCard(v), issuers: issuers}
	card1 := canon.NewObject(b.members1()...)
	served, payloads := card1, [][]byte{card1.AppendCJ(nil)}
	if b.acceptsKeys { // the JavaScript SDK of 1.0 loses the schemes when it reads a card
		schemeless := slices.DeleteFunc(slices.Clone(card1.Members()), func(m canon.Member) bool { return m.Key == "securitySchemes" })
		payloads = append(payloads, canon.NewObject(schemeless...).AppendCJ(nil))
	}
	if form == unionCard {
		served = canon.NewObject(b.unionMembers()...)
		card03, _ := removeEmpty(canon.NewObject(b.members03()...))
		payloads = append(payloads, served.AppendCJ(nil), card03.AppendASCII(nil))
	}
	var signatures []canon.Value
	err = a.WithSigner(ctx, v.ID, func(s identity.Signer) error {
		for _, payload := range payloads {
			protected, signature, err := jws.Sign(ctx, s, payload, textMember("jku", b.url+keySetPath))
			if err != nil {
				return err
			}
			signatures = append(signatures, canon.NewObject(textMember("protected", protected), textMember("signature", signature)))
		}
		return nil
	})
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the card cannot be signed now")
	}
	served = canon.NewObject(append(served.Members(), member("signatures", canon.NewArray(signatures...)))...)
	if form == snakeCard {
		served = toSnakeCase(served)
	}
	return served.AppendCJ(nil), nil
}

// removeEmpty returns v without its empty objects and arrays. ok is false if the result is empty.
func removeEmpty(v canon.Value) (pruned canon.Value, ok bool) {
	switch v.Kind() {
	case canon.Object:
		var members []canon.Member
		for _, m := range v.Members() {
			if value, ok := removeEmpty(m.Value); ok {
				members = append(members, member(m.Key, value))
			}
		}
		return canon.NewObject(members...), len(members) > 0
	case canon.Array:
		var items []canon.Value
		for _, item := range v.Items() {
			if value, ok := removeEmpty(item); ok {
				items = append(items, value)
			}
		}
		return canon.NewArray(items...), len(items) > 0
	}
	return v, true
}

// toSnakeCase leaves the parameters of extensions unchanged, because an extension defines their
// names.
func toSnakeCase(v canon.Value) canon.Value {
	switch v.Kind() {
	case canon.Object:
		var members []canon.Member
		for _, m := range v.Members() {
			value := m.Value
			if m.Key != "params" {
				value = toSnakeCase(value)
			}
			members = append(members, member(a2awire.ToSnakeCase(m.Key), value))
		}
		return canon.NewObject(members...)
	case canon.Array:
		var items []canon.Value
		for _, item := range v.Items() {
			items = append(items, toSnakeCase(item))
		}
		return canon.NewArray(items...)
	}
	return v
}

type cardBuilder struct {
	record          *vacants.Record
	halo            *card.Card
	url             string
	hasPush         bool
	acceptsKeys     bool
	hasExtendedCard bool
	issuers         []string
}

// acceptsGuests reports whether a vacant answers callers without a key.
func acceptsGuests(v *vacants.Record) bool {
	switch v.KeylessAccess {
	case vacants.KeylessOff:
		return false
	case vacants.KeylessShared:
		// All callers without a key are the same guest, who may call if callers that sign may.
		return v.Price.AdmitsSigners()
	}
	return v.Price.AdmitsGuests()
}

// hasExtendedCard reports whether a vacant has an extended card. For a vacant that answers guests
// (callers without a key), an extended card would contain no more than the public card.
func (a *api) hasExtendedCard(v *vacants.Record) bool { return a.AcceptsKeys(v) && !acceptsGuests(v) }

const bearerScheme = "bearer"

func loginScheme(i int) string {
	if i == 0 {
		return "login"
	}
	return fmt.Sprintf("login%d", i+1)
}

// versionSet is a set of versions of A2A for which a member of a card is written.
type versionSet byte

const (
	inVersion1 versionSet = 1 << iota
	inVersion03
	inBothVersions = inVersion1 | inVersion03
)

// securityScheme returns a security scheme. In 1.0, a scheme contains an object whose name states
// the type. In 0.3, a scheme has a member "type". If versions contains only 0.3, "type" is omitted,
// because members03 omits members with default values.
func securityScheme(versions versionSet, name, objectName, schemeType string, detail canon.Member) canon.Member {
	var members []canon.Member
	if versions&inVersion03 != 0 {
		members = append(members, detail)
		if versions == inBothVersions {
			members = append(members, textMember("type", schemeType))
		}
	}
	if versions&inVersion1 != 0 {
		members = append(members, member(objectName, canon.NewObject(detail)))
	}
	return member(name, canon.NewObject(members...))
}

func (b *cardBuilder) securitySchemes(versions versionSet) canon.Member {
	list := []canon.Member{securityScheme(versions, bearerScheme, "httpAuthSecurityScheme", "http", textMember("scheme", bearerScheme))}
	for i, issuer := range b.issuers {
		metadata := textMember("openIdConnectUrl", billing.IssuerMetadataURLs(issuer)[0])
		list = append(list, securityScheme(versions, loginScheme(i), "openIdConnectSecurityScheme", "openIdConnect", metadata))
	}
	return member("securitySchemes", canon.NewObject(list...))
}

func (b *cardBuilder) priceMembers() []canon.Member {
	amount := func(m money.Amount) string { return strconv.FormatInt(int64(m), 10) }
	p := b.record.Price
	if p.IsFree() {
		return []canon.Member{textMember("price", "0")}
	}
	members := []canon.Member{textMember("price", amount(p.Hold())), textMember("price_unit", a2awire.PriceUnit)}
	if p.HasTokenPrice() {
		members = append(members, textMember("price_flat", amount(p.Flat)), textMember("price_in", amount(p.InputPrice)), textMember("price_out", amount(p.OutputPrice)))
	}
	return members
}

func (b *cardBuilder) commonMembers(capabilities ...canon.Member) []canon.Member {
	extension := []canon.Member{
		textMember("uri", a2awire.Extension),
		textMember("description", "Messages may carry signed, hash-chained envelopes; the answer carries the agent's."),
		member("params", canon.NewObject(append([]canon.Member{
			textMember("vacant_id", b.record.ID.String()), textMember("halo_hash", identity.Sum(b.record.Card).String()), textMember("halo_url", b.url+"/card"),
		}, b.priceMembers()...)...)),
	}
	if b.record.KeylessAccess == vacants.KeylessOff {
		extension = append(extension, member("required", canon.NewBool(true)))
	}
	if b.hasPush {
		capabilities = append(capabilities, member("pushNotifications", canon.NewBool(true)))
	}
	capabilities = append(capabilities, member("streaming", canon.NewBool(true)), member("extensions", canon.NewArray(canon.NewObject(extension...))))
	return []canon.Member{
		textMember("name", b.record.Name), textMember("description", b.record.Capability), textMember("version", fmt.Sprintf("1.%d.0", b.record.AgentVersion)),
		member("capabilities", canon.NewObject(capabilities...)),
		member("defaultInputModes", textArray(plain.InputModes(b.record)...)), member("defaultOutputModes", textArray(plain.OutputModes(b.record)...)),
		member("skills", canon.NewArray(canon.NewObject(
			textMember("id", b.record.Name), textMember("name", b.record.Name), textMember("description", b.record.Capability), member("tags", textArray("vacant")),
		))),
	}
}

func (b *cardBuilder) members1() []canon.Member {
	newInterface := func(binding, version string) canon.Value {
		return canon.NewObject(textMember("url", b.url), textMember("protocolBinding", binding), textMember("protocolVersion", version))
	}
	interfaces := member("supportedInterfaces", canon.NewArray(newInterface("JSONRPC", version1), newInterface("HTTP+JSON", version1), newInterface("JSONRPC", version03)))
	var capabilities []canon.Member
	if b.hasExtendedCard {
		capabilities = []canon.Member{member("extendedAgentCard", canon.NewBool(true))}
	}
	members := append(b.commonMembers(capabilities...), interfaces)
	if !b.acceptsKeys {
		return members
	}
	// securityRequirements is omitted, because the Go SDK (v2.4.0) cannot read a card that contains
	// it in the specified form.
	return append(members, b.securitySchemes(inVersion1))
}

// members03 returns the members of a 0.3 card that have no default value.
func (b *cardBuilder) members03() []canon.Member {
	members := append(b.commonMembers(member("stateTransitionHistory", canon.NewBool(true))), textMember("url", b.url),
		member("additionalInterfaces", canon.NewArray(canon.NewObject(textMember("url", b.url), textMember("transport", "JSONRPC")))))
	if b.acceptsKeys {
		alternatives := []canon.Value{canon.NewObject(member(bearerScheme, canon.NewArray()))}
		for i := range b.issuers {
			alternatives = append(alternatives, canon.NewObject(member(loginScheme(i), canon.NewArray())))
		}
		if acceptsGuests(b.record) {
			alternatives = append(alternatives, canon.NewObject())
		}
		members = append(members, b.securitySchemes(inVersion03), member("security", canon.NewArray(alternatives...)))
	}
	if b.hasExtendedCard {
		members = append(members, member("supportsAuthenticatedExtendedCard", canon.NewBool(true)))
	}
	return members
}

func (b *cardBuilder) unionMembers() []canon.Member {
	merged := append(b.members03(), textMember("protocolVersion", "0.3.0"), textMember("preferredTransport", "JSONRPC"))
	for _, m := range b.members1() {
		index := slices.IndexFunc(merged, func(o canon.Member) bool { return o.Key == m.Key })
		switch {
		case index < 0:
			merged = append(merged, m)
		case m.Key == "capabilities":
			members := m.Value.Members()
			for _, other := range merged[index].Value.Members() {
				if _, ok := m.Value.Get(other.Key); !ok {
					members = append(members, other)
				}
			}
			merged[index].Value = canon.NewObject(members...)
		case m.Key == "securitySchemes":
			merged[index] = b.securitySchemes(inBothVersions)
		}
	}
	return merged
}
