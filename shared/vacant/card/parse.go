package card

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Parse parses a serialised card without verifying its signature. It ignores unknown keys and
// refuses members of a wrong type (PROTOCOL §10).
func Parse(blob []byte) (Card, error) {
	if len(blob) > MaxBlob {
		return Card{}, &problem.Error{Kind: problem.TooLarge, Field: "capability card",
			Want: fmt.Sprintf("at most %d bytes", MaxBlob), Got: fmt.Sprint(len(blob))}
	}
	limits := canon.DefaultLimits()
	limits.Bytes = MaxBlob
	v, err := canon.Parse(blob, limits)
	if err != nil {
		return Card{}, problem.New(problem.Malformed, "capability card not valid JSON: %s", problem.AsError(err).Text())
	}
	if v.Kind() != canon.Object {
		return Card{}, problem.New(problem.Malformed, "capability card must be a JSON object")
	}
	c := Card{HaloVersion: Version}
	// The version comes first, because the fields of a later version are unknown.
	if err := checkVersion(v); err != nil {
		return Card{}, err
	}
	// The Python reference implementation reads the fields in the same order, so errors name the
	// same field.
	for _, read := range []func(*Card, canon.Value) error{readID, readCapability, readSubstrateSpec, readEndpoint, readSignature} {
		if err := read(&c, v); err != nil {
			return Card{}, problem.New(problem.Malformed, "invalid capability card: %s", problem.AsError(err).Text())
		}
	}
	return c, nil
}

func checkVersion(v canon.Value) error {
	version, ok := v.Get("halo_version")
	if !ok {
		return nil // a card without the member has version 1, which Parse has set
	}
	if version.Kind() != canon.Int {
		return problem.New(problem.Malformed, "capability card halo_version must be int; got %s", truncate(canon.PythonRepr(version)))
	}
	if n, ok := version.Int64(); !ok || n != Version {
		return unsupportedVersionError(truncate(canon.PythonRepr(version)))
	}
	return nil
}

func unsupportedVersionError(version string) error {
	return problem.Wrap(problem.Malformed, ErrUnsupportedVersion, "halo_version %s not in [%d, %d]", version, Version, Version)
}

func readID(c *Card, v canon.Value) (err error) {
	s, err := stringAt(v, "vacant_id")
	if err != nil {
		return err
	}
	if c.VacantID, err = identity.ParseID(s); err != nil {
		return problem.New(problem.Malformed, "vacant_id: %s", problem.AsError(err).Text())
	}
	return nil
}

func readCapability(c *Card, v canon.Value) (err error) {
	c.CapabilityText, err = stringAt(v, "capability_text")
	return err
}

func readSubstrateSpec(c *Card, v canon.Value) error {
	spec, ok := v.Get("substrate_spec")
	if !ok || spec.Kind() == canon.Null {
		return nil
	}
	if spec.Kind() != canon.Object {
		return mismatchError("substrate_spec", canon.Object, spec)
	}
	if names, ok := spec.Get("allowed_substrates"); ok {
		if names.Kind() != canon.Array {
			return mismatchError("substrate_spec.allowed_substrates", canon.Array, names)
		}
		for i, name := range names.Items() {
			field := fmt.Sprintf("substrate_spec.allowed_substrates[%d]", i)
			if name.Kind() != canon.String {
				return mismatchError(field, canon.String, name)
			}
			if canon.IsBlank(name.Text()) {
				return problem.Invalid(field, "a name", "a blank string")
			}
			c.AllowedSubstrates = append(c.AllowedSubstrates, name.Text())
		}
	}
	if policy, ok := spec.Get("policy"); ok {
		if policy.Kind() != canon.Object {
			return mismatchError("substrate_spec.policy", canon.Object, policy)
		}
		if len(policy.Members()) > 0 {
			c.Policy = policy // an empty object stays the zero Value, so that a card has one form
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
		return problem.New(problem.Malformed, "signature: %s", problem.AsError(err).Text())
	}
	if len(b) > 0 {
		c.Signature = b
	}
	return nil
}

func stringAt(v canon.Value, key string) (string, error) {
	s, ok := v.Get(key)
	if !ok {
		return "", problem.New(problem.Malformed, "'%s'", key)
	}
	if s.Kind() != canon.String {
		return "", mismatchError(key, canon.String, s)
	}
	return s.Text(), nil
}

func mismatchError(field string, want canon.Kind, got canon.Value) error {
	return problem.Invalid(field, want.String(), got.Kind().String())
}
