package agents

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const maxCardBytes = 1 << 20

// Card is an agent card, parsed from any version and spelling.
type Card struct {
	Name, Description, Version   string
	Interfaces                   []Interface
	Skills                       []Skill
	Streaming, PushNotifications bool
	// VacantID is the vacant id that the card claims, or zero. Only a signature with this id proves
	// the claim.
	VacantID identity.ID
	// MaxCharge is the maximum price of a call in micro-dollars.
	MaxCharge  int64
	PriceTerms price.Price
	// RequiresSignature is set if the card requires the A2A extension for signed messages.
	RequiresSignature bool
	// AcceptsGuests reports whether the agent answers callers without a key.
	AcceptsGuests bool

	value canon.Value
	url   string
}

// Interface is an address of an agent.
type Interface struct {
	URL     string `json:"url"`
	Binding string `json:"binding"` // JSONRPC, HTTP+JSON or GRPC
	Version string `json:"version"` // A2A version; may be empty
}

// Skill is an ability of an agent.
type Skill struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

func member(v canon.Value, name string) canon.Value {
	if m, ok := v.Get(name); ok {
		return m
	}
	m, _ := v.Get(a2awire.ToSnakeCase(name))
	return m
}

func textOrNumber(v canon.Value) string {
	if k := v.Kind(); k == canon.Int || k == canon.Float { // some cards have numbers as versions
		return string(v.AppendCJ(nil))
	}
	return v.Text()
}

func isTrue(v canon.Value) bool {
	return v.Kind() == canon.Bool && string(v.AppendCJ(nil)) == "true"
}

func ParseCard(cardURL string, raw []byte) (*Card, error) {
	limits := canon.AnswerLimits()
	limits.Bytes = maxCardBytes
	v, err := canon.Parse(canon.TrimByteOrderMark(raw), limits)
	if err != nil {
		return nil, problem.Wrap(problem.Untrusted, fmt.Errorf("%w: %w", ErrAgentCardSchemaInvalid, err), "the agent's card is invalid: %s", problem.AsError(err).Text())
	}
	c := &Card{value: v, url: cardURL}
	c.Name, c.Description, c.Version = member(v, "name").Text(), member(v, "description").Text(), textOrNumber(member(v, "version"))
	capabilities := member(v, "capabilities")
	c.Streaming, c.PushNotifications = isTrue(member(capabilities, "streaming")), isTrue(member(capabilities, "pushNotifications"))
	for _, e := range member(capabilities, "extensions").Items() {
		if member(e, "uri").Text() == a2awire.Extension {
			id, _ := member(e, "params").Get("vacant_id")
			c.VacantID, _ = identity.ParseID(id.Text())
			c.readPrice(member(e, "params"))
			c.RequiresSignature = isTrue(member(e, "required"))
		}
	}
	security, hasSecurity := v.Get("security")
	c.AcceptsGuests = !hasSecurity || slices.ContainsFunc(security.Items(), func(requirement canon.Value) bool {
		return requirement.Kind() == canon.Object && len(requirement.Members()) == 0
	})
	for _, i := range member(v, "supportedInterfaces").Items() {
		c.Interfaces = append(c.Interfaces, Interface{member(i, "url").Text(), member(i, "protocolBinding").Text(), textOrNumber(member(i, "protocolVersion"))})
	}
	if len(c.Interfaces) == 0 && member(v, "url").Text() != "" {
		c.Interfaces = parseInterfacesV03(v)
	}
	for _, s := range member(v, "skills").Items() {
		skill := Skill{ID: member(s, "id").Text(), Name: member(s, "name").Text()}
		for _, t := range member(s, "tags").Items() {
			skill.Tags = append(skill.Tags, t.Text())
		}
		c.Skills = append(c.Skills, skill)
	}
	for memberName, isMissing := range map[string]bool{"name": c.Name == "", "supportedInterfaces or url": len(c.Interfaces) == 0} {
		if isMissing {
			return nil, problem.Wrap(problem.Untrusted, ErrAgentCardSchemaInvalid, "the agent's card has no %s", memberName)
		}
	}
	return c, nil
}

func (c *Card) readPrice(params canon.Value) {
	amount := func(name string) money.Amount {
		v, _ := params.Get(name)
		n, _ := strconv.ParseInt(v.Text(), 10, 64)
		return money.Amount(max(n, 0))
	}
	maxPrice := amount("price")
	c.MaxCharge = int64(maxPrice)
	c.PriceTerms = price.Price{Flat: maxPrice}
	if in, out := amount("price_in"), amount("price_out"); in > 0 || out > 0 {
		c.PriceTerms = price.Price{Flat: amount("price_flat"), InputPrice: in, OutputPrice: out, MaxCharge: maxPrice}
	}
}

func parseInterfacesV03(v canon.Value) []Interface {
	version := textOrNumber(member(v, "protocolVersion"))
	version = cmp.Or(version, "0.3")
	binding := member(v, "preferredTransport").Text()
	binding = cmp.Or(binding, "JSONRPC")
	interfaces := []Interface{{member(v, "url").Text(), binding, version}}
	for _, i := range member(v, "additionalInterfaces").Items() {
		interfaces = append(interfaces, Interface{member(i, "url").Text(), member(i, "transport").Text(), version})
	}
	return interfaces
}

// chooseInterface returns the first JSON-RPC address that this client may use.
func (c *Card) chooseInterface() (endpoint string, d a2awire.Dialect, err error) {
	var firstErr error
	for _, i := range c.Interfaces {
		if !strings.EqualFold(i.Binding, "JSONRPC") {
			continue
		}
		endpoint, d, err := c.checkInterface(i)
		if err == nil {
			return endpoint, d, nil
		}
		firstErr = cmp.Or(firstErr, err)
	}
	if firstErr == nil {
		firstErr = problem.Wrap(problem.Untrusted, ErrNoJSONRPCInterface, "the agent has no address for JSON-RPC")
	}
	return "", d, firstErr
}

func (c *Card) checkInterface(i Interface) (endpoint string, d a2awire.Dialect, err error) {
	switch major, _, _ := strings.Cut(i.Version, "."); major {
	case "", "0":
		d = a2awire.V03
	case "1":
		d = a2awire.V1
	default:
		return "", d, problem.Wrap(problem.Untrusted, ErrNoJSONRPCInterface, "the agent supports A2A version %.20q at %.80q: expected 1.0 or 0.3", i.Version, i.URL)
	}
	cardURL, cardURLErr := url.Parse(c.url)
	if u, err := url.Parse(i.URL); err == nil && (cardURLErr != nil || u.Host != cardURL.Host) {
		return "", d, problem.Wrap(problem.Untrusted, ErrPeerNotAllowed, "the card from %s names an address at %.80q: expected an address at the card's own host; the agent's operator can correct the card", cardURL.Host, u.Host)
	}
	u, err := ParseURL(i.URL)
	if err != nil {
		return "", d, err
	}
	return u.String(), d, nil
}

// Signature is the result of checking a card's signature.
type Signature struct {
	KeyID     string `json:"key"` // kid
	KeySetURL string `json:"jku,omitempty"`
	Verified  bool   `json:"verified"`
	// ByVacant reports whether the key belongs to the vacant that the card names.
	ByVacant bool   `json:"vacant"`
	Reason   string `json:"reason,omitempty"`
}

// signedForms returns the card in each encoding that an SDK signs. AppendASCII encodes like
// json.dumps in Python, which earlier SDKs used.
func (c *Card) signedForms() [][]byte {
	var allMembers, membersV1, membersV03 []canon.Member
	v03 := map[string]bool{"protocolVersion": true, "url": true, "preferredTransport": true, "additionalInterfaces": true, "security": true, "supportsAuthenticatedExtendedCard": true}
	for _, m := range c.value.Members() {
		if m.Key == "signatures" {
			continue
		}
		allMembers = append(allMembers, m)
		if v03 := m; m.Key != "supportedInterfaces" && !(m.Key == "protocolVersion" && m.Value.Text() == "0.3.0") && !(m.Key == "preferredTransport" && m.Value.Text() == "JSONRPC") {
			switch m.Key {
			case "capabilities":
				v03.Value = withoutMember(m.Value, "extendedAgentCard")
			case "securitySchemes":
				v03.Value = filterSchemeMembers(m.Value, func(name string) bool { return name != "type" && !strings.HasSuffix(name, "SecurityScheme") })
			}
			membersV03 = append(membersV03, v03)
		}
		if v03[m.Key] {
			continue
		}
		if m.Key == "capabilities" { // only version 0.3 has this capability
			m.Value = withoutMember(m.Value, "stateTransitionHistory")
		}
		if m.Key == "securitySchemes" {
			m.Value = filterSchemeMembers(m.Value, func(name string) bool { return strings.HasSuffix(name, "SecurityScheme") })
		}
		membersV1 = append(membersV1, m)
	}
	version1 := dropEmpty(canon.NewObject(membersV1...))
	return [][]byte{
		canon.NewObject(allMembers...).AppendJCS(nil), dropEmpty(canon.NewObject(allMembers...)).AppendJCS(nil),
		version1.AppendJCS(nil), version1.AppendASCII(nil), dropEmpty(canon.NewObject(membersV03...)).AppendASCII(nil),
		withoutMember(version1, "securitySchemes").AppendJCS(nil),
	}
}

func filterSchemeMembers(v canon.Value, keep func(name string) bool) canon.Value {
	var schemes []canon.Member
	for _, scheme := range v.Members() {
		members := slices.DeleteFunc(slices.Clone(scheme.Value.Members()), func(m canon.Member) bool { return !keep(m.Key) })
		schemes = append(schemes, canon.Member{Key: scheme.Key, Value: canon.NewObject(members...)})
	}
	return canon.NewObject(schemes...)
}

func withoutMember(v canon.Value, name string) canon.Value {
	var members []canon.Member
	for _, m := range v.Members() {
		if m.Key != name {
			members = append(members, m)
		}
	}
	return canon.NewObject(members...)
}

// dropEmpty drops nulls and empty strings, lists and objects, which typed decoders do not preserve.
func dropEmpty(v canon.Value) canon.Value {
	switch v.Kind() {
	case canon.Object:
		var members []canon.Member
		for _, m := range v.Members() {
			if m.Value = dropEmpty(m.Value); !isEmpty(m.Value) {
				members = append(members, m)
			}
		}
		return canon.NewObject(members...)
	case canon.Array:
		var items []canon.Value
		for _, item := range v.Items() {
			if item = dropEmpty(item); !isEmpty(item) {
				items = append(items, item)
			}
		}
		return canon.NewArray(items...)
	}
	return v
}

func isEmpty(v canon.Value) bool {
	switch v.Kind() {
	case canon.Object:
		return len(v.Members()) == 0
	case canon.Array:
		return len(v.Items()) == 0
	case canon.String:
		return v.Text() == ""
	}
	return v.Kind() == canon.Null
}

// CheckSignatures checks the signatures of a card. It calls fetchKeySet only for URLs of the card's
// own host.
func (c *Card) CheckSignatures(fetchKeySet func(url string) ([]byte, error)) []Signature {
	signatures, _ := c.value.Get("signatures")
	payloads := c.signedForms()
	var results []Signature
	for _, s := range signatures.Items() {
		result := c.checkSignature(s, payloads, fetchKeySet)
		results = append(results, result)
	}
	return results
}

func (c *Card) checkSignature(s canon.Value, payloads [][]byte, fetchKeySet func(url string) ([]byte, error)) (result Signature) {
	protected := member(s, "protected").Text()
	raw, err := base64.RawURLEncoding.DecodeString(protected)
	header, parseErr := canon.Parse(raw, canon.DefaultLimits())
	sig, sigErr := base64.RawURLEncoding.DecodeString(member(s, "signature").Text())
	if err != nil || parseErr != nil || sigErr != nil {
		result.Reason = "it does not decode"
		return result
	}
	headerText := func(name string) string { v, _ := header.Get(name); return v.Text() }
	result.KeyID, result.KeySetURL = headerText("kid"), headerText("jku")
	verify, reason := c.newVerifier(headerText("alg"), result.KeyID, result.KeySetURL, fetchKeySet)
	if reason != "" {
		result.Reason = reason
		return result
	}
	for _, payload := range payloads {
		if verify([]byte(protected+"."+base64.RawURLEncoding.EncodeToString(payload)), sig) {
			result.Verified = true
			result.ByVacant = !c.VacantID.IsZero() && result.KeyID == c.VacantID.String()
			return result
		}
	}
	result.Reason = "it does not match the card"
	return result
}

// newVerifier accepts only the key of the card's vacant, or a key in a key set at the card's host.
func (c *Card) newVerifier(alg, kid, jku string, fetchKeySet func(url string) ([]byte, error)) (verify func(signed, sig []byte) bool, reason string) {
	if id, err := identity.ParseID(kid); err == nil && id == c.VacantID && alg == "EdDSA" {
		return func(signed, sig []byte) bool { return identity.Verify(id, signed, sig) }, ""
	}
	u, err := ParseURL(jku)
	cardURL, cardURLErr := url.Parse(c.url)
	switch {
	case jku == "":
		return nil, "it names no key that this client knows"
	case err != nil || cardURLErr != nil || u.Host != cardURL.Host:
		return nil, "its key is at another host than the card"
	}
	raw, err := fetchKeySet(u.String())
	if err != nil {
		return nil, "its key cannot be fetched: " + problem.AsError(err).Text()
	}
	set, err := canon.Parse(raw, canon.DefaultLimits())
	if err != nil {
		return nil, "its key set does not decode"
	}
	for _, k := range member(set, "keys").Items() {
		if member(k, "kid").Text() == kid {
			return newKeyVerifier(alg, k)
		}
	}
	return nil, "its key is not in the key set"
}

func newKeyVerifier(alg string, k canon.Value) (verify func(signed, sig []byte) bool, reason string) {
	coordinate := func(name string) []byte {
		b, _ := base64.RawURLEncoding.DecodeString(member(k, name).Text())
		return b
	}
	x := coordinate("x")
	switch {
	case alg == "EdDSA" && len(x) == ed25519.PublicKeySize:
		return func(signed, sig []byte) bool { return ed25519.Verify(x, signed, sig) }, ""
	case alg == "ES256" && len(x) == 32 && len(coordinate("y")) == 32:
		point := append(append([]byte{4}, x...), coordinate("y")...)
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			return nil, "its key is not valid"
		}
		return func(signed, sig []byte) bool {
			sum := sha256.Sum256(signed)
			return len(sig) == 64 && ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
		}, ""
	}
	return nil, fmt.Sprintf("this client does not know the algorithm %.20q, or the key does not fit it", alg)
}
