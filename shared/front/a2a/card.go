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

// profile is a form of the agent card.
type profile uint8

const (
	union profile = iota // members of 1.0 and 0.3
	pure                 // only members of 1.0, for readers that reject unknown members
	snake                // 1.0 in snake case, for a client that reads only snake case
)

func (d *api) card(r *request) error {
	base, err := d.Base(r.Request)
	if err != nil {
		return err
	}
	form := union
	v := r.requestedVersion()
	switch {
	case strings.HasPrefix(r.UserAgent(), "harbor-a2a/"):
		form = snake
	case r.Options.PureCard, v == version1 || strings.HasPrefix(v, version1+"."):
		form = pure
	}
	c, err := d.cards.get(r.Context(), d, &r.Vacant, base, form)
	if err != nil {
		return err
	}
	h := r.ResponseWriter.Header()
	h.Set("Vary", "A2A-Version, User-Agent")
	d.page(r, c, "max-age=60")
	return nil
}

func (d *api) keySet(r *request) error {
	id := r.Vacant.ID
	body := canon.NewObject(member("keys", canon.NewArray(canon.NewObject(
		text("kty", "OKP"), text("crv", "Ed25519"), text("alg", "EdDSA"), text("use", "sig"),
		text("kid", id.String()), text("x", base64.RawURLEncoding.EncodeToString(id[:])),
	)))).AppendCJ(nil)
	d.page(r, newPage(body, r.Vacant.Created), "max-age=86400")
	return nil
}

// page is a public response that caches may store.
type page struct {
	body     []byte
	etag     string
	modified time.Time
}

func newPage(body []byte, modified time.Time) *page {
	return &page{body, `"` + identity.Sum(body).String()[:32] + `"`, modified.UTC().Truncate(time.Second)}
}

func (d *api) page(r *request, p *page, cache string) {
	h := r.ResponseWriter.Header()
	h.Set("Cache-Control", "public, "+cache)
	h.Set("ETag", p.etag)
	h.Set("Last-Modified", p.modified.Format(http.TimeFormat))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", mediaJSON)
	// ServeContent uses the headers above to answer conditional requests.
	http.ServeContent(r.ResponseWriter, r.Request, "", p.modified, strings.NewReader(string(p.body)))
	r.Log("ok", http.StatusOK, nil)
}

// cardCache caches signed cards, because signing takes longer than the rest of a card, and KMS
// charges for each signature.
type cardCache struct {
	mu sync.Mutex
	m  map[cardKey]*page
}

type cardKey struct {
	id      identity.ID
	changed time.Time // time of the record's last change
	base    string
	issuers string
	profile profile
}

const maxCards = 1024

func (c *cardCache) get(ctx context.Context, d *api, v *vacants.Record, base string, p profile) (*page, error) {
	var issuers []string
	if d.Issuers != nil && d.TakesKeys(v) {
		var err error
		if issuers, err = d.Issuers(ctx, v); err != nil {
			return nil, err
		}
	}
	key := cardKey{v.ID, v.Changed, base, strings.Join(issuers, " "), p}
	c.mu.Lock()
	cached := c.m[key]
	c.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	body, err := d.signedCard(ctx, v, base, issuers, p)
	if err != nil {
		return nil, err
	}
	cached = newPage(body, v.Changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= maxCards {
		clear(c.m)
	}
	c.m[key] = cached
	return cached, nil
}

func text(key, s string) canon.Member               { return canon.Member{Key: key, Value: canon.NewString(s)} }
func member(key string, v canon.Value) canon.Member { return canon.Member{Key: key, Value: v} }
func texts(values ...string) canon.Value {
	items := make([]canon.Value, len(values))
	for i, s := range values {
		items[i] = canon.NewString(s)
	}
	return canon.NewArray(items...)
}

// signedCard builds a card and signs it once for each way in which clients reconstruct the signed bytes:
// from the JSON as served, from the members of 1.0, and from the members of 0.3 without default values,
// in ASCII. The card omits members with a default value, because clients that decode it into types drop
// them. Such clients also drop empty members, of which the card has one: security of 0.3.
func (d *api) signedCard(ctx context.Context, v *vacants.Record, base string, issuers []string, p profile) ([]byte, error) {
	halo, err := card.Parse(v.Card)
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the stored card of %s is damaged", v.ID.Short())
	}
	b := cardBuilder{record: v, halo: &halo, url: base + "/v/" + v.ID.String(), push: d.Push != nil, keys: d.TakesKeys(v), extended: d.hasExtendedCard(v), issuers: issuers}
	card1 := canon.NewObject(b.members1()...)
	whole, payloads := card1, [][]byte{card1.AppendCJ(nil)}
	if b.keys { // the JavaScript SDK of 1.0 loses the schemes when it reads a card
		schemeless := slices.DeleteFunc(slices.Clone(card1.Members()), func(m canon.Member) bool { return m.Key == "securitySchemes" })
		payloads = append(payloads, canon.NewObject(schemeless...).AppendCJ(nil))
	}
	if p == union {
		whole = canon.NewObject(b.union()...)
		typed, _ := withoutEmpty(canon.NewObject(b.members03()...))
		payloads = append(payloads, whole.AppendCJ(nil), typed.AppendASCII(nil))
	}
	var signatures []canon.Value
	err = d.Sign(ctx, v.ID, func(s identity.Signer) error {
		for _, payload := range payloads {
			protected, signature, err := jws.Sign(ctx, s, payload, text("jku", b.url+keySetPath))
			if err != nil {
				return err
			}
			signatures = append(signatures, canon.NewObject(text("protected", protected), text("signature", signature)))
		}
		return nil
	})
	if err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the card cannot be signed now")
	}
	whole = canon.NewObject(append(whole.Members(), member("signatures", canon.NewArray(signatures...)))...)
	if p == snake {
		whole = snakeCase(whole)
	}
	return whole.AppendCJ(nil), nil
}

// withoutEmpty returns v without its empty objects and arrays. ok is false if the result is empty.
func withoutEmpty(v canon.Value) (whole canon.Value, ok bool) {
	switch v.Kind() {
	case canon.Object:
		var members []canon.Member
		for _, m := range v.Members() {
			if value, ok := withoutEmpty(m.Value); ok {
				members = append(members, member(m.Key, value))
			}
		}
		return canon.NewObject(members...), len(members) > 0
	case canon.Array:
		var items []canon.Value
		for _, item := range v.Items() {
			if value, ok := withoutEmpty(item); ok {
				items = append(items, value)
			}
		}
		return canon.NewArray(items...), len(items) > 0
	}
	return v, true
}

// snakeCase spells the members of a card in snake case. It leaves the parameters of extensions
// unchanged, because an extension defines their names.
func snakeCase(v canon.Value) canon.Value {
	switch v.Kind() {
	case canon.Object:
		var members []canon.Member
		for _, m := range v.Members() {
			value := m.Value
			if m.Key != "params" {
				value = snakeCase(value)
			}
			members = append(members, member(a2awire.ToSnakeCase(m.Key), value))
		}
		return canon.NewObject(members...)
	case canon.Array:
		var items []canon.Value
		for _, item := range v.Items() {
			items = append(items, snakeCase(item))
		}
		return canon.NewArray(items...)
	}
	return v
}

type cardBuilder struct {
	record   *vacants.Record
	halo     *card.Card
	url      string
	push     bool
	keys     bool // the vacant accepts keys of accounts
	extended bool // the vacant has an extended card
	// issuers contains the URLs of the issuers whose tokens the vacant accepts.
	issuers []string
}

// takesGuests reports whether a vacant answers callers without a key.
func takesGuests(v *vacants.Record) bool {
	switch v.KeylessAccess {
	case vacants.PlainOff:
		return false
	case vacants.PlainShared:
		// All callers without a key are the same guest, who may call if callers that sign may.
		return v.Price.AdmitsSigners()
	}
	return v.Price.AdmitsGuests()
}

// hasExtendedCard reports whether a vacant has an extended card. A vacant has one if it answers only keys
// of accounts. The guests of other vacants (callers without a key) would learn no more from an extended
// card than from the public card.
func (d *api) hasExtendedCard(v *vacants.Record) bool { return d.TakesKeys(v) && !takesGuests(v) }

// bearer is the name of the security scheme of account keys.
const bearer = "bearer"

func login(i int) string {
	if i == 0 {
		return "login"
	}
	return fmt.Sprintf("login%d", i+1)
}

// versionSet is a set of versions of A2A. A member of a card is written in the forms of all versions in
// the set.
type versionSet byte

const (
	form1 versionSet = 1 << iota
	form03
	formBoth = form1 | form03
)

// scheme returns a security scheme. In 1.0, it contains an object whose name states the type. In 0.3,
// it has a member "type". If versions contains only 0.3, scheme omits "type", because that card
// omits members with default values.
func scheme(f versionSet, name, object, kind string, about canon.Member) canon.Member {
	var members []canon.Member
	if f&form03 != 0 {
		members = append(members, about)
		if f == formBoth {
			members = append(members, text("type", kind))
		}
	}
	if f&form1 != 0 {
		members = append(members, member(object, canon.NewObject(about)))
	}
	return member(name, canon.NewObject(members...))
}

func (b *cardBuilder) schemes(f versionSet) canon.Member {
	list := []canon.Member{scheme(f, bearer, "httpAuthSecurityScheme", "http", text("scheme", bearer))}
	for i, issuer := range b.issuers {
		metadata := text("openIdConnectUrl", billing.IssuerMetadata(issuer)[0])
		list = append(list, scheme(f, login(i), "openIdConnectSecurityScheme", "openIdConnect", metadata))
	}
	return member("securitySchemes", canon.NewObject(list...))
}

// price returns the members about the price: the maximum price of a call, its unit, and the
// components of a price by tokens, each per million tokens.
func (b *cardBuilder) price() []canon.Member {
	amount := func(m money.Amount) string { return strconv.FormatInt(int64(m), 10) }
	p := b.record.Price
	if p.IsFree() {
		return []canon.Member{text("price", "0")}
	}
	members := []canon.Member{text("price", amount(p.Hold())), text("price_unit", a2awire.PriceUnit)}
	if p.HasTokenPrice() {
		members = append(members, text("price_flat", amount(p.Flat)), text("price_in", amount(p.In)), text("price_out", amount(p.Out)))
	}
	return members
}

func (b *cardBuilder) common(capabilities ...canon.Member) []canon.Member {
	extension := []canon.Member{
		text("uri", a2awire.Extension),
		text("description", "Messages may carry signed, hash-chained envelopes; the answer carries the agent's."),
		member("params", canon.NewObject(append([]canon.Member{
			text("vacant_id", b.record.ID.String()), text("halo_hash", identity.Sum(b.record.Card).String()), text("halo_url", b.url+"/card"),
		}, b.price()...)...)),
	}
	if b.record.KeylessAccess == vacants.PlainOff {
		extension = append(extension, member("required", canon.NewBool(true)))
	}
	if b.push {
		capabilities = append(capabilities, member("pushNotifications", canon.NewBool(true)))
	}
	capabilities = append(capabilities, member("streaming", canon.NewBool(true)), member("extensions", canon.NewArray(canon.NewObject(extension...))))
	return []canon.Member{
		text("name", b.record.Name), text("description", b.record.Capability), text("version", fmt.Sprintf("1.%d.0", b.record.Agent)),
		member("capabilities", canon.NewObject(capabilities...)),
		member("defaultInputModes", texts(plain.InputModes(b.record)...)), member("defaultOutputModes", texts(plain.OutputModes(b.record)...)),
		member("skills", canon.NewArray(canon.NewObject(
			text("id", b.record.Name), text("name", b.record.Name), text("description", b.record.Capability), member("tags", texts("vacant")),
		))),
	}
}

func (b *cardBuilder) members1() []canon.Member {
	newInterface := func(binding, version string) canon.Value {
		return canon.NewObject(text("url", b.url), text("protocolBinding", binding), text("protocolVersion", version))
	}
	interfaces := member("supportedInterfaces", canon.NewArray(newInterface("JSONRPC", version1), newInterface("HTTP+JSON", version1), newInterface("JSONRPC", version03)))
	var capabilities []canon.Member
	if b.extended {
		capabilities = []canon.Member{member("extendedAgentCard", canon.NewBool(true))}
	}
	members := append(b.common(capabilities...), interfaces)
	if !b.keys {
		return members
	}
	// securityRequirements is omitted, because the Go SDK (v2.4.0) cannot read a card that contains
	// it in the specified form.
	return append(members, b.schemes(form1))
}

// members03 returns the members of a 0.3 card that have no default value.
func (b *cardBuilder) members03() []canon.Member {
	members := append(b.common(member("stateTransitionHistory", canon.NewBool(true))), text("url", b.url),
		member("additionalInterfaces", canon.NewArray(canon.NewObject(text("url", b.url), text("transport", "JSONRPC")))))
	if b.keys {
		ways := []canon.Value{canon.NewObject(member(bearer, canon.NewArray()))}
		for i := range b.issuers {
			ways = append(ways, canon.NewObject(member(login(i), canon.NewArray())))
		}
		if takesGuests(b.record) {
			ways = append(ways, canon.NewObject())
		}
		members = append(members, b.schemes(form03), member("security", canon.NewArray(ways...)))
	}
	if b.extended {
		members = append(members, member("supportsAuthenticatedExtendedCard", canon.NewBool(true)))
	}
	return members
}

func (b *cardBuilder) union() []canon.Member {
	merged := append(b.members03(), text("protocolVersion", "0.3.0"), text("preferredTransport", "JSONRPC"))
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
			merged[index] = b.schemes(formBoth)
		}
	}
	return merged
}
