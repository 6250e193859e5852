package registryapi

import (
	"bytes"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// halo is the decoded body of a publication.
type halo struct {
	cardHex, signatureHex    string
	state                    lifecycle.State
	visibility               lifecycle.Visibility
	baseModel, family, owner *string
	version                  *string
	declared                 []string
	parent                   *identity.ID
	time, actorSeq           int64
	key                      string
	listing                  *listing.Listing
}

// maxDeclared bounds the list before its elements are checked.
const maxDeclared = 1024

// readHalo decodes the body of a publication. A wrong shape is of kind Schema,
// 422 like the reference.
func readHalo(body []byte) (h halo, err error) {
	h.visibility = lifecycle.Public
	need := newNeed("capability_card_blob_hex", "runtime_state", "event_ts_ms", "event_actor_seq", "event_idempotency_key", "event_signature_hex")
	d := canon.NewDecoder(body, canon.DefaultLimits())
	err = d.Document(func(key string) error {
		need.got(key)
		return h.member(d, key)
	})
	if err == nil {
		err = need.all()
	}
	return h, schema(err)
}

func (h *halo) member(d *canon.Decoder, key string) (err error) {
	switch key {
	case "capability_card_blob_hex":
		h.cardHex, err = text(d, key)
	case "runtime_state":
		h.state, err = state(d, key)
	case "visibility":
		h.visibility, err = visibility(d, key)
	case "base_model":
		h.baseModel, err = optional(d, key)
	case "base_model_family":
		h.family, err = optional(d, key)
	case "owner_org":
		h.owner, err = optional(d, key)
	case "version":
		h.version, err = optional(d, key)
	case "declared_capabilities":
		h.declared, err = texts(d, key)
	case "parent_id":
		h.parent, err = optionalID(d, key)
	case "listing":
		h.listing, err = listed(d, key)
	default:
		return h.event(d, key)
	}
	return err
}

func (h *halo) event(d *canon.Decoder, key string) (err error) {
	switch key {
	case "event_ts_ms":
		h.time, err = number(d, key, 0)
	case "event_actor_seq":
		h.actorSeq, err = number(d, key, 1)
	case "event_idempotency_key":
		h.key, err = text(d, key)
	case "event_signature_hex":
		h.signatureHex, err = text(d, key)
	default:
		err = problem.Invalid(quoted(key), "a member of a publish", "another")
	}
	return err
}

// revocation is the decoded body of a revocation.
type revocation struct {
	halo
	id     identity.ID
	reason string
}

func readRevocation(body []byte) (v revocation, err error) {
	need := newNeed("vacant_id", "reason", "event_ts_ms", "event_actor_seq", "event_idempotency_key", "event_signature_hex")
	d := canon.NewDecoder(body, canon.DefaultLimits())
	err = d.Document(func(key string) (err error) {
		need.got(key)
		switch key {
		case "vacant_id":
			v.id, err = vacantID(d, key)
		case "reason":
			v.reason, err = text(d, key)
		default:
			err = v.event(d, key)
		}
		return err
	})
	if err == nil {
		err = need.all()
	}
	return v, schema(err)
}

// unhex refuses invalid hex with 400 like the reference, after the shape was
// checked.
func unhex(field, s string) ([]byte, error) {
	b, err := identity.ParseHex(s)
	if err != nil {
		return nil, problem.New(problem.Malformed, "%s not hex: got %s", field, clip(s))
	}
	return b, nil
}

// need records which required members are missing.
type need struct {
	names []string
	seen  map[string]bool
}

func newNeed(names ...string) need { return need{names, map[string]bool{}} }

func (n need) got(name string) { n.seen[name] = true }

func (n need) all() error {
	for _, name := range n.names {
		if !n.seen[name] {
			return problem.Invalid(name, "a value", "nothing")
		}
	}
	return nil
}

// schema gives an error about a body's shape the kind Schema.
func schema(err error) error {
	if err == nil || problem.Is(err, problem.TooLarge) {
		return err
	}
	p := *problem.Of(err)
	p.Kind = problem.Schema
	return &p
}

func text(d *canon.Decoder, field string) (string, error) {
	if k := d.Kind(); k != canon.String {
		return "", problem.Invalid(field, canon.String.String(), k.String())
	}
	return d.String()
}

func optional(d *canon.Decoder, field string) (*string, error) {
	if d.Kind() == canon.Null {
		return nil, d.Null()
	}
	s, err := text(d, field)
	return &s, err
}

func texts(d *canon.Decoder, field string) (list []string, err error) {
	switch k := d.Kind(); k {
	case canon.Null:
		return nil, d.Null()
	case canon.Array:
	default:
		return nil, problem.Invalid(field, "a list of strings", k.String())
	}
	list = []string{}
	err = d.Array(func(i int) error {
		if i >= maxDeclared {
			return problem.Invalid(field, fmt.Sprintf("at most %d texts", maxDeclared), "more")
		}
		s, err := text(d, fmt.Sprintf("%s[%d]", field, i))
		list = append(list, s)
		return err
	})
	return list, err
}

func number(d *canon.Decoder, field string, least int64) (int64, error) {
	if k := d.Kind(); k != canon.Int {
		return 0, problem.Invalid(field, canon.Int.String(), k.String())
	}
	n, err := d.Int64()
	if err == nil && n < least {
		err = problem.Invalid(field, fmt.Sprintf("at least %d", least), fmt.Sprint(n))
	}
	return n, err
}

func state(d *canon.Decoder, field string) (lifecycle.State, error) {
	word, err := text(d, field)
	if err != nil {
		return "", err
	}
	s, err := lifecycle.ParseState(word)
	if err != nil {
		return "", problem.Invalid(field, fmt.Sprintf("one of %v", lifecycle.States()), clip(word))
	}
	return s, nil
}

func visibility(d *canon.Decoder, field string) (lifecycle.Visibility, error) {
	word, err := text(d, field)
	if err != nil {
		return "", err
	}
	switch v := lifecycle.Visibility(word); v {
	case lifecycle.Public, lifecycle.Restricted, lifecycle.Hidden:
		return v, nil
	}
	return "", problem.Invalid(field, "PUBLIC, RESTRICTED or NONE", clip(word))
}

func vacantID(d *canon.Decoder, field string) (identity.ID, error) {
	s, err := text(d, field)
	if err != nil {
		return identity.ID{}, err
	}
	id, err := identity.ParseID(s)
	if err != nil {
		return id, problem.Invalid(field, "an id of 64 hex digits", clip(s))
	}
	return id, nil
}

func optionalID(d *canon.Decoder, field string) (*identity.ID, error) {
	if d.Kind() == canon.Null {
		return nil, d.Null()
	}
	id, err := vacantID(d, field)
	return &id, err
}

// listed decodes a listing inside another body.
func listed(d *canon.Decoder, field string) (*listing.Listing, error) {
	if d.Kind() == canon.Null {
		return nil, d.Null()
	}
	raw, err := d.Raw()
	if err != nil {
		return nil, err
	}
	l, err := listing.Parse(bytes.Clone(raw))
	if err != nil {
		return nil, within(field, err)
	}
	return &l, nil
}

// within prefixes an error's field with its position.
func within(field string, err error) error {
	p := *problem.Of(err)
	if p.Detail = field + ": " + p.Text(); p.Field != "" {
		field += "." + p.Field
	}
	p.Field = field
	return &p
}

func quoted(key string) string { return fmt.Sprintf("%.40q", key) }
