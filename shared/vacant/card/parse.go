package card

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Parse parses a serialised card without verifying its signature. Errors have
// kind Malformed, or TooLarge above MaxBlob; their texts begin as the
// reference's do. Unknown keys are ignored and dropped. Parse refuses types
// that the reference converts (PROTOCOL §10).
func Parse(blob []byte) (Card, error) {
	if len(blob) > MaxBlob {
		return Card{}, &problem.Error{Kind: problem.TooLarge, Field: "capability card",
			Want: fmt.Sprintf("at most %d bytes", MaxBlob), Got: fmt.Sprint(len(blob))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes = MaxBlob
	v, err := canon.Parse(blob, limits)
	if err != nil {
		return Card{}, problem.New(problem.Malformed, "capability card not valid JSON: %s", problem.Of(err).Text())
	}
	if v.Kind() != canon.Object {
		return Card{}, problem.New(problem.Malformed, "capability card must be a JSON object")
	}
	c := Card{HaloVersion: Version}
	if err := checkVersion(v); err != nil {
		return Card{}, err
	}
	// In the reference's order: of two wrong fields it names the first.
	for _, read := range []func(*Card, canon.Value) error{readID, readText, readSpec, readEndpoint, readSignature} {
		if err := read(&c, v); err != nil {
			return Card{}, problem.New(problem.Malformed, "invalid capability card: %s", problem.Of(err).Text())
		}
	}
	return c, nil
}

// checkVersion runs before any other field is read, because the fields of a
// later version are unknown.
func checkVersion(v canon.Value) error {
	version, ok := v.Get("halo_version")
	if !ok {
		return nil // Parse has set version 1, which a card without the member has
	}
	if version.Kind() != canon.Int {
		return problem.New(problem.Malformed, "capability card halo_version must be int; got %s", clip(canon.Python(version)))
	}
	if n, ok := version.Int64(); !ok || n != Version {
		return unsupported(clip(canon.Python(version)))
	}
	return nil
}

func unsupported(version string) error {
	return problem.Wrap(problem.Malformed, ErrUnsupportedVersion, "halo_version %s not in [%d, %d]", version, Version, Version)
}

func readID(c *Card, v canon.Value) (err error) {
	s, err := stringAt(v, "vacant_id")
	if err != nil {
		return err
	}
	if c.VacantID, err = identity.ParseID(s); err != nil {
		return problem.New(problem.Malformed, "vacant_id: %s", problem.Of(err).Text())
	}
	return nil
}

func readText(c *Card, v canon.Value) (err error) {
	c.CapabilityText, err = stringAt(v, "capability_text")
	return err
}

// readSpec reads the allowed substrates and the policy. A missing or null spec has
// neither.
func readSpec(c *Card, v canon.Value) error {
	spec, ok := v.Get("substrate_spec")
	if !ok || spec.Kind() == canon.Null {
		return nil
	}
	if spec.Kind() != canon.Object {
		return mismatch("substrate_spec", canon.Object, spec)
	}
	if names, ok := spec.Get("allowed_substrates"); ok {
		if names.Kind() != canon.Array {
			return mismatch("substrate_spec.allowed_substrates", canon.Array, names)
		}
		for i, name := range names.Items() {
			field := fmt.Sprintf("substrate_spec.allowed_substrates[%d]", i)
			if name.Kind() != canon.String {
				return mismatch(field, canon.String, name)
			}
			if canon.IsBlank(name.Text()) {
				return problem.Invalid(field, "a name", "a blank string")
			}
			c.AllowedSubstrates = append(c.AllowedSubstrates, name.Text())
		}
	}
	if policy, ok := spec.Get("policy"); ok {
		if policy.Kind() != canon.Object {
			return mismatch("substrate_spec.policy", canon.Object, policy)
		}
		if len(policy.Members()) > 0 {
			c.Policy = policy // the empty object becomes the zero Value, so that a card has one form
		}
	}
	return nil
}

func readEndpoint(c *Card, v canon.Value) (err error) {
	if e, ok := v.Get("endpoint"); !ok || e.Kind() == canon.Null {
		return nil
	}
	c.Endpoint, err = stringAt(v, "endpoint")
	return err
}

func readSignature(c *Card, v canon.Value) error {
	if _, ok := v.Get("signature"); !ok {
		return nil
	}
	s, err := stringAt(v, "signature")
	if err != nil {
		return err
	}
	b, err := identity.ParseHex(s)
	if err != nil {
		return problem.New(problem.Malformed, "signature: %s", problem.Of(err).Text())
	}
	if len(b) > 0 {
		c.Signature = b
	}
	return nil
}

// stringAt returns the string at key. The error for a missing key quotes it in
// single quotes, as the reference does.
func stringAt(v canon.Value, key string) (string, error) {
	s, ok := v.Get(key)
	if !ok {
		return "", problem.New(problem.Malformed, "'%s'", key)
	}
	if s.Kind() != canon.String {
		return "", mismatch(key, canon.String, s)
	}
	return s.Text(), nil
}

func mismatch(field string, want canon.Kind, got canon.Value) error {
	return problem.Invalid(field, want.String(), got.Kind().String())
}
