package logbook

import (
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// The logbook of a child begins with KindBirth (PROTOCOL §11).
const (
	KindBirth       = "BIRTH"
	KindSpawn       = "SPAWN"
	KindDelegate    = "COMPOSITE_DELEGATE"
	KindExecute     = "COMPOSITE_EXECUTE"
	KindAggregate   = "COMPOSITE_AGGREGATE"
	KindGraduated   = "COMPOSITE_GRADUATED"
	KindPlanChanged = "PLAN_CHANGED"
)

// KindReviewIssued entries do not contain the claim, because the reviewer may erase the claim
// later.
const KindReviewIssued = "REVIEW_ISSUED"

const closedPath = "D2"

// Birth is the content of a child's first entry. Payload writes only the members that belong to
// BirthPath.
type Birth struct {
	Parent           identity.ID
	BirthPath        string
	PolicyMutation   string       // D1
	Tools            []string     // D2
	Capability       string       // D3
	SecondParent     *identity.ID // D4
	ReferenceConsent []byte       // D4: composite.Consent.ReferenceSignature
	ChildConsent     []byte       // D4: composite.Consent.Signature
	ConsentNonce     string       // D4
	NewSubstrates    []string     // D5
	OldSubstrates    []string     // D5
}

func (b Birth) Payload() []byte {
	members := []canon.Member{stringMember("parent_id", b.Parent.String()), stringMember("path", b.BirthPath)}
	switch b.BirthPath {
	case "D1":
		members = append(members, stringMember("policy_mutation", b.PolicyMutation))
	case closedPath:
		members = append(members, stringsMember("narrowed_tools", b.Tools))
	case "D3":
		members = append(members, stringMember("new_capability_text", b.Capability))
	case "D4":
		if b.SecondParent != nil {
			members = append(members, stringMember("secondary_parent_id", b.SecondParent.String()))
		}
		members = append(members, stringMember("consent_signature", hex.EncodeToString(b.ReferenceConsent)))
		if len(b.ChildConsent) > 0 {
			members = append(members, stringMember("child_consent_signature", hex.EncodeToString(b.ChildConsent)), stringMember("consent_nonce", b.ConsentNonce))
		}
	case "D5":
		members = append(members, stringsMember("new_substrates", b.NewSubstrates), stringsMember("old_substrates", b.OldSubstrates))
	}
	return encodeObject(members...)
}

// ParseBirth ignores the members of other birth paths.
func ParseBirth(payload []byte) (Birth, error) {
	v, err := parsePayload(payload, canon.DefaultLimits())
	if err != nil {
		return Birth{}, err
	}
	var b Birth
	if b.Parent, err = idAt(v, "parent_id"); err != nil {
		return Birth{}, err
	}
	if b.BirthPath, err = stringAt(v, "path"); err != nil {
		return Birth{}, err
	}
	switch b.BirthPath {
	case "D1":
		b.PolicyMutation, err = stringAt(v, "policy_mutation")
	case closedPath:
		b.Tools, err = stringsAt(v, "narrowed_tools")
	case "D3":
		b.Capability, err = stringAt(v, "new_capability_text")
	case "D4":
		err = b.readConsent(v)
	case "D5":
		if b.NewSubstrates, err = stringsAt(v, "new_substrates"); err == nil {
			b.OldSubstrates, err = stringsAt(v, "old_substrates")
		}
	default:
		err = problem.Invalid("path", "D1 to D5", strconv.Quote(b.BirthPath))
	}
	if err != nil {
		return Birth{}, err
	}
	return b, nil
}

func (b *Birth) readConsent(v canon.Value) error {
	secondParent, err := idAt(v, "secondary_parent_id")
	if err != nil {
		return err
	}
	b.SecondParent = &secondParent
	if b.ReferenceConsent, err = hexAt(v, "consent_signature"); err != nil {
		return err
	}
	if _, hasChildConsent := v.Get("child_consent_signature"); !hasChildConsent {
		return nil
	}
	if b.ChildConsent, err = hexAt(v, "child_consent_signature"); err != nil {
		return err
	}
	b.ConsentNonce, err = stringAt(v, "consent_nonce")
	return err
}

// Spawn is the content of the parent's entry about a new child.
type Spawn struct {
	Child        identity.ID
	BirthPath    string
	SecondParent *identity.ID // D4
}

func (s Spawn) Payload() []byte {
	members := []canon.Member{stringMember("child_id", s.Child.String()), stringMember("path", s.BirthPath)}
	if s.BirthPath == closedPath {
		members = append(members, canon.Member{Key: "closed_child", Value: canon.NewBool(true)})
	}
	if s.BirthPath == "D4" && s.SecondParent != nil {
		members = append(members, stringMember("secondary_parent_id", s.SecondParent.String()))
	}
	return encodeObject(members...)
}

func ParseSpawn(payload []byte) (Spawn, error) {
	v, err := parsePayload(payload, canon.DefaultLimits())
	if err != nil {
		return Spawn{}, err
	}
	var s Spawn
	if s.Child, err = idAt(v, "child_id"); err != nil {
		return Spawn{}, err
	}
	if s.BirthPath, err = stringAt(v, "path"); err != nil {
		return Spawn{}, err
	}
	if s.BirthPath == "D4" {
		secondParent, err := idAt(v, "secondary_parent_id")
		if err != nil {
			return Spawn{}, err
		}
		s.SecondParent = &secondParent
	}
	return s, nil
}

// Delegation is the content of the parent's KindDelegate entry and the child's KindExecute entry
// about a task. A zero TaskHash is omitted.
type Delegation struct {
	Parent, Child identity.ID
	SubtaskKind   string
	TaskHash      identity.Hash // hash of the sent text
}

func (d Delegation) DelegatePayload() []byte {
	return d.payload(stringMember("child_id", d.Child.String()))
}

func (d Delegation) ExecutePayload() []byte {
	return d.payload(stringMember("parent_id", d.Parent.String()))
}

func (d Delegation) payload(otherParty canon.Member) []byte {
	members := []canon.Member{otherParty, stringMember("subtask_kind", d.SubtaskKind)}
	if !d.TaskHash.IsZero() {
		members = append(members, stringMember("task_hash", d.TaskHash.String()))
	}
	return encodeObject(members...)
}

// Aggregation is the content of the parent's entry about combining its children's answers. A nil
// list or zero hash is omitted.
type Aggregation struct {
	Children                 []identity.ID // in the order of the calls
	TaskHashes, ResultHashes []identity.Hash
	CombinedHash             identity.Hash
}

func (a Aggregation) Payload() []byte {
	members := []canon.Member{
		stringsMember("child_ids", toStrings(a.Children)),
		{Key: "n_results", Value: canon.NewInt(int64(len(a.Children)))},
	}
	if a.TaskHashes != nil {
		members = append(members, stringsMember("task_hashes", toStrings(a.TaskHashes)))
	}
	if a.ResultHashes != nil {
		members = append(members, stringsMember("result_hashes", toStrings(a.ResultHashes)))
	}
	if !a.CombinedHash.IsZero() {
		members = append(members, stringMember("result_hash", a.CombinedHash.String()))
	}
	return encodeObject(members...)
}

// Graduation is the content of the entries of parent and child when the child becomes public.
type Graduation struct {
	Parent, Child identity.ID
	Capability    string
}

func (g Graduation) Payload() []byte {
	return encodeObject(stringMember("capability_text", g.Capability), stringMember("child_id", g.Child.String()), stringMember("parent_id", g.Parent.String()))
}

func ParseGraduation(payload []byte) (Graduation, error) {
	v, err := parsePayload(payload, canon.DefaultLimits())
	if err != nil {
		return Graduation{}, err
	}
	var g Graduation
	if g.Parent, err = idAt(v, "parent_id"); err != nil {
		return Graduation{}, err
	}
	if g.Child, err = idAt(v, "child_id"); err != nil {
		return Graduation{}, err
	}
	if g.Capability, err = stringAt(v, "capability_text"); err != nil {
		return Graduation{}, err
	}
	return g, nil
}

func PlanChangedPayload(plan identity.Hash) []byte {
	return encodeObject(stringMember("plan_hash", plan.String()))
}

func ParsePlanChanged(payload []byte) (identity.Hash, error) {
	v, err := parsePayload(payload, canon.DefaultLimits())
	if err != nil {
		return identity.Hash{}, err
	}
	s, err := stringAt(v, "plan_hash")
	if err != nil {
		return identity.Hash{}, err
	}
	h, err := identity.ParseHash(s)
	return h, withField("plan_hash", err)
}

// SubtaskKind returns the member "kind" of v as Python's str formats it. If v has no such member,
// it returns the name of v's Python type (PROTOCOL §11).
func SubtaskKind(v canon.Value) string {
	if kind, ok := v.Get("kind"); ok && v.Kind() == canon.Object {
		if kind.Kind() == canon.String {
			return kind.Text()
		}
		return canon.PythonRepr(kind)
	}
	switch v.Kind() {
	case canon.Object:
		return "dict"
	case canon.Array:
		return "list"
	case canon.String:
		return "str"
	case canon.Int:
		return "int"
	case canon.Float:
		return "float"
	case canon.Bool:
		return "bool"
	}
	return "NoneType"
}

// StateAfter returns the state of owner's vacant after e. If e does not change the state, ok is
// false.
func (e *Entry) StateAfter(owner identity.ID) (state lifecycle.State, ok bool, err error) {
	switch e.Kind {
	case KindStateChanged, KindPublished:
		payload, err := canon.Parse(e.Payload, canon.DefaultLimits())
		if err != nil {
			return "", true, err
		}
		to, _ := payload.Get("to")
		state, err = lifecycle.ParseState(to.Text())
		return state, true, err
	case KindBirth:
		b, err := ParseBirth(e.Payload)
		if err != nil {
			return "", true, err
		}
		if b.BirthPath == closedPath {
			return lifecycle.Local, true, nil
		}
		return lifecycle.Active, true, nil
	case KindGraduated:
		g, err := ParseGraduation(e.Payload)
		if err != nil {
			return "", true, err
		}
		return lifecycle.Active, g.Child == owner, nil
	}
	return "", false, nil
}

func stringMember(key, s string) canon.Member {
	return canon.Member{Key: key, Value: canon.NewString(s)}
}

func stringsMember(key string, list []string) canon.Member {
	items := make([]canon.Value, len(list))
	for i, s := range list {
		items[i] = canon.NewString(s)
	}
	return canon.Member{Key: key, Value: canon.NewArray(items...)}
}

func toStrings[T interface{ String() string }](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func idAt(v canon.Value, key string) (identity.ID, error) {
	s, err := stringAt(v, key)
	if err != nil {
		return identity.ID{}, err
	}
	id, err := identity.ParseID(s)
	return id, withField(key, err)
}

func hexAt(v canon.Value, key string) ([]byte, error) {
	s, err := stringAt(v, key)
	if err != nil {
		return nil, err
	}
	b, err := identity.ParseHex(s)
	return b, withField(key, err)
}

func stringsAt(v canon.Value, key string) ([]string, error) {
	list, err := memberAt(v, key, canon.Array)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list.Items(), func(e canon.Value) bool { return e.Kind() != canon.String }); i >= 0 {
		return nil, problem.Invalid(key+"["+strconv.Itoa(i)+"]", canon.String.String(), list.Items()[i].Kind().String())
	}
	out := make([]string, len(list.Items()))
	for i, e := range list.Items() {
		out[i] = e.Text()
	}
	return out, nil
}
