// Package policy evaluates IAM policies: it decides whether the policies of a role allow a request.
// LocalStack does not enforce policies, so only this package detects a missing permission.
//
// A policy with a language element that this package does not support is an error.
package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Request is a request to authorise.
type Request struct {
	Action   string              // such as dynamodb:PutItem
	Resource string              // an ARN, or "*" for actions without resources
	Context  map[string][]string // values by condition key, in lower case
}

// Statement is one statement of a policy. Its slices are not empty.
type Statement struct {
	Sid        string
	Allow      bool
	Actions    []string // with * and ?
	Resources  []string // with * and ?
	Conditions []Condition
}

// Condition is one operator on one key. It holds if the operator holds for any
// value of the policy; a negated operator must hold for all values.
type Condition struct {
	Operator string
	Key      string // in lower case
	Values   []string
}

// Policy is the statements of all policies of a role.
type Policy []Statement

// Parse parses a policy document of a role.
func Parse(doc []byte) (Policy, error) { return parse(doc, "") }

// ParseOf parses the policy document of a resource for the roles of an account.
// It omits statements for services, and keeps those for the account or for
// everybody.
func ParseOf(doc []byte, account string) (Policy, error) { return parse(doc, account) }

func parse(doc []byte, account string) (Policy, error) {
	var d struct {
		Version   string
		ID        string `json:"Id"`
		Statement oneOrMore[statement]
	}
	if err := strictly(doc, &d); err != nil {
		return nil, err
	}
	if d.Version != "2012-10-17" {
		return nil, fmt.Errorf("version %q, want 2012-10-17: an older language", d.Version)
	}
	var p Policy
	for i, s := range d.Statement {
		ours, err := s.about(account)
		if err != nil {
			return nil, fmt.Errorf("statement %d %q: %w", i+1, s.Sid, err)
		}
		if !ours {
			continue
		}
		parsed, err := s.parse()
		if err != nil {
			return nil, fmt.Errorf("statement %d %q: %w", i+1, s.Sid, err)
		}
		p = append(p, parsed)
	}
	return p, nil
}

// statement is a statement as written. NotAction, NotResource and NotPrincipal
// are unknown members and therefore refused.
type statement struct {
	Sid       string
	Effect    string
	Principal *principal
	Action    oneOrMore[string]
	Resource  oneOrMore[string]
	Condition map[string]map[string]oneOrMore[value]
}

// principal is "*", or one kind of principals.
type principal struct {
	AWS, Service oneOrMore[string]
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *principal) UnmarshalJSON(b []byte) error {
	if string(b) == `"*"` {
		p.AWS = oneOrMore[string]{"*"}
		return nil
	}
	type plain principal
	return strictly(b, (*plain)(p))
}

// about reports whether a statement applies to the roles of an account.
// Statements of a role's own policy (account is "") have no principal.
func (s statement) about(account string) (bool, error) {
	switch {
	case (s.Principal == nil) != (account == ""):
		return false, fmt.Errorf("a Principal in a role's policy, or none in a resource's")
	case account == "":
		return true, nil
	case len(s.Principal.AWS) == 0:
		return false, nil
	}
	for _, p := range s.Principal.AWS {
		if p != "*" && p != account && p != "arn:aws:iam::"+account+":root" {
			return false, fmt.Errorf("principal %q, want the account's root or *: others are not known here", p)
		}
	}
	return true, nil
}

func (s statement) parse() (Statement, error) {
	p := Statement{Sid: s.Sid, Allow: s.Effect == "Allow", Actions: s.Action, Resources: s.Resource}
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return p, fmt.Errorf("effect %q, want Allow or Deny", s.Effect)
	case len(s.Action) == 0 || len(s.Resource) == 0:
		return p, fmt.Errorf("%d actions and %d resources, want one or more of each", len(s.Action), len(s.Resource))
	}
	for operator, keys := range s.Condition {
		if _, ok := operators[operator]; !ok {
			return p, fmt.Errorf("condition operator %q is not known here", operator)
		}
		for key, values := range keys {
			c := Condition{Operator: operator, Key: strings.ToLower(key)}
			for _, v := range values {
				c.Values = append(c.Values, string(v))
			}
			p.Conditions = append(p.Conditions, c)
		}
	}
	slices.SortFunc(p.Conditions, func(a, b Condition) int { return strings.Compare(a.Operator+" "+a.Key, b.Operator+" "+b.Key) })
	return p, nil
}

// oneOrMore is a value or a list of values; the policy language has both.
type oneOrMore[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMore[T]) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		var list []T
		err := strictly(b, &list)
		*o = list
		return err
	}
	var one T
	err := strictly(b, &one)
	*o = []T{one}
	return err
}

// value is a string or a bool of a condition.
type value string

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(b []byte) error {
	switch text := string(b); text {
	case "true", "false":
		*v = value(text)
		return nil
	default:
		return json.Unmarshal(b, (*string)(v))
	}
}

func strictly(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}

// Use is a part of a policy that decided a request: the index of a statement,
// and its matching action and resource patterns.
type Use struct {
	Statement        int
	Action, Resource string
}

// Decide evaluates a request: a matching Deny refuses it, otherwise a matching
// Allow allows it, otherwise it is refused. The uses are the matches with the
// deciding effect.
func (p Policy) Decide(r Request) (allowed bool, by []Use) {
	denied := p.fitting(r, false)
	if len(denied) > 0 {
		return false, denied
	}
	by = p.fitting(r, true)
	return len(by) > 0, by
}

func (p Policy) fitting(r Request, allow bool) (by []Use) {
	for i, s := range p {
		if s.Allow != allow || !s.holds(r.Context) {
			continue
		}
		for _, a := range s.Actions {
			if !Like(strings.ToLower(a), strings.ToLower(r.Action)) {
				continue
			}
			for _, resource := range s.Resources {
				if Like(resource, r.Resource) {
					by = append(by, Use{i, a, resource})
				}
			}
		}
	}
	return by
}

func (s Statement) holds(context map[string][]string) bool {
	return !slices.ContainsFunc(s.Conditions, func(c Condition) bool { return !operators[c.Operator](c.Values, context[c.Key]) })
}

// operators compare the request's values of a key with the policy's. A missing
// key matches nothing, except for operators over all values, for negated ones,
// and for Null.
var operators = map[string]func(want, got []string) bool{
	"StringEquals":              single(equal),
	"StringLike":                single(Like),
	"StringNotLike":             none(Like),
	"StringLikeIfExists":        ifThere(single(Like)),
	"ArnEquals":                 single(Like), // equivalent, by IAM's reference
	"ArnLike":                   single(Like),
	"Bool":                      single(strings.EqualFold),
	"ForAllValues:StringEquals": all(equal),
	"ForAllValues:StringLike":   all(Like),
	"ForAnyValue:StringEquals":  some(equal),
	"ForAnyValue:StringLike":    some(Like),
	"Null":                      absent,
}

func equal(want, got string) bool { return want == got }

func single(fits func(want, got string) bool) func(want, got []string) bool {
	return func(want, got []string) bool { return len(got) == 1 && some(fits)(want, got) }
}

// ifThere holds if the key is missing.
func ifThere(holds func(want, got []string) bool) func(want, got []string) bool {
	return func(want, got []string) bool { return len(got) == 0 || holds(want, got) }
}

func some(fits func(want, got string) bool) func(want, got []string) bool {
	return func(want, got []string) bool {
		return slices.ContainsFunc(got, func(g string) bool {
			return slices.ContainsFunc(want, func(w string) bool { return fits(w, g) })
		})
	}
}

func all(fits func(want, got string) bool) func(want, got []string) bool {
	return func(want, got []string) bool {
		return !slices.ContainsFunc(got, func(g string) bool { return !some(fits)(want, []string{g}) })
	}
}

// none holds if the key is missing, too.
func none(fits func(want, got string) bool) func(want, got []string) bool {
	return func(want, got []string) bool { return !some(fits)(want, got) }
}

func absent(want, got []string) bool {
	return slices.ContainsFunc(want, func(w string) bool { return (w == "true") == (len(got) == 0) })
}

// Like reports whether text matches a pattern in which * matches any text and ?
// one byte.
func Like(pattern, text string) bool {
	star, mark := -1, 0 // the last *, and the end of its match in text
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Unused returns the parts of the Allow statements that no use names: actions
// and resources that decided nothing.
func (p Policy) Unused(used []Use) (parts []Use) {
	for i, s := range p {
		if !s.Allow {
			continue
		}
		for _, a := range s.Actions {
			if !slices.ContainsFunc(used, func(u Use) bool { return u.Statement == i && u.Action == a }) {
				parts = append(parts, Use{Statement: i, Action: a})
			}
		}
		for _, r := range s.Resources {
			if !slices.ContainsFunc(used, func(u Use) bool { return u.Statement == i && u.Resource == r }) {
				parts = append(parts, Use{Statement: i, Resource: r})
			}
		}
	}
	return parts
}

// Merge returns one request for each action and resource of several requests, with all values of a condition key. AWS
// does not document whether DynamoDB asks about each item of a transaction or about all items at once.
func Merge(all []Request, key string) (merged []Request) {
	for _, r := range all {
		i := slices.IndexFunc(merged, func(m Request) bool { return m.Action == r.Action && m.Resource == r.Resource })
		if i < 0 {
			i, merged = len(merged), append(merged, Request{Action: r.Action, Resource: r.Resource, Context: maps.Clone(r.Context)})
			merged[i].Context[key] = nil
		}
		merged[i].Context[key] = append(merged[i].Context[key], r.Context[key]...)
	}
	return merged
}
