package vacants

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

type SpawnSpec struct {
	// Asker must know the vacants in Agent.Vacants that are not public.
	Asker  Asker
	Parent identity.ID
	Path   composite.BirthPath
	Name   string
	// Capability and Substrate default to the parent's values. Path D3 requires a different
	// capability, and D5 a different substrate.
	Capability, Substrate string
	// If Agent is nil and Substrate is empty, the child has its parent's agent.
	Agent  *definition.Agent
	Tenant string // defaults to the parent's tenant
	// Tools contains all tools that a D2 child may use. For the other paths, Tools are added to the
	// inherited tools.
	Tools        []string
	Rule         string       // for path D1
	SecondParent *identity.ID // for path D4
	// Reachability and OutboundPolicy may be empty. buildManifest then chooses the defaults.
	Reachability   composite.Reachability
	OutboundPolicy composite.OutboundPolicy
}

const closedPath composite.BirthPath = "D2"

// Spawn creates a child with its own key. A D2 child is closed and LOCAL, and other children are
// open and ACTIVE. A closed parent can have only closed children, because an open child would
// bypass the checks of a graduation. Repeating the call returns the same child.
func (v *Directory) Spawn(ctx context.Context, s SpawnSpec) (r Record, m composite.Manifest, err error) {
	noManifest := composite.Manifest{}
	if v.Registry == nil {
		return r, noManifest, problem.New(problem.Conflict, "this host has no registry")
	}
	if s.Substrate, err = v.resolveSubstrateText(s.Substrate, s.Agent); err != nil {
		return r, noManifest, err
	}
	if err := registry.CheckNewName(s.Name); err != nil {
		return r, noManifest, err
	}
	if s.Capability != "" || s.Path == "D3" {
		if err := checkCapability(s.Capability); err != nil {
			return r, noManifest, err
		}
	}
	if !slices.Contains(composite.BirthPaths(), s.Path) {
		return r, noManifest, problem.Invalid("path", "D1 to D5", quoteTruncated(string(s.Path)))
	}
	secondParent := ""
	if s.SecondParent != nil {
		secondParent = s.SecondParent.Short()
	}
	for _, option := range []struct{ field, path, given string }{{"rule", "D1", s.Rule}, {"with", "D4", secondParent}} {
		switch isNeeded := string(s.Path) == option.path; {
		case isNeeded && option.given == "":
			return r, noManifest, problem.Invalid(option.field, "a value for path "+option.path, "none")
		case !isNeeded && option.given != "":
			return r, noManifest, problem.Invalid(option.field, fmt.Sprintf("no value for path %s", s.Path), quoteTruncated(option.given))
		}
	}
	if s.Path == "D5" && s.Substrate == "" {
		return r, noManifest, problem.Invalid("substrate", "a substrate other than the parent's, for path D5", "none")
	}
	if s.SecondParent != nil && *s.SecondParent == s.Parent {
		return r, noManifest, problem.Invalid("with", "a vacant other than the parent", "the parent")
	}
	if s.Path == closedPath && s.Reachability == composite.PublicA2A {
		return r, noManifest, problem.Invalid("endpoint_reachability", "parent-only or parent-bridged, for a closed child", string(s.Reachability))
	}
	if err := tenant.Check(s.Tenant); err != nil {
		return r, noManifest, err
	}
	if s.Agent != nil {
		parent, err := v.getAsOperator(ctx, s.Parent)
		if err != nil {
			return r, noManifest, err
		}
		self := Record{Tenant: cmp.Or(s.Tenant, parent.Tenant), Parent: &s.Parent}
		next, err := v.resolveVacants(ctx, s.Asker, &self, *s.Agent)
		if err != nil {
			return r, noManifest, err
		}
		s.Agent = &next
	}
	base, err := v.requireBaseURL(ctx)
	if err != nil {
		return r, noManifest, err
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	find := func(ctx context.Context) (r Record, err error) {
		r, m, err = v.findChild(ctx, &s)
		return r, err
	}
	if r, err = find(ctx); err != nil || !r.ID.IsZero() {
		return r, m, err
	}
	var sealedRecord Record
	key, wipe, err := v.sealKey(ctx, &sealedRecord, nil)
	if err != nil {
		return Record{}, noManifest, err
	}
	defer wipe()
	r, err = v.commitNew(ctx, s.Asker, key, base, []identity.ID{s.Parent}, find, func(ctx context.Context, tx *store.Tx) (Record, entry, error) {
		child := sealedRecord
		var first entry
		var err error
		m, first, err = v.prepareChild(ctx, tx, &s, &child, key, base)
		return child, first, err
	})
	if err != nil {
		return Record{}, noManifest, err
	}
	return r, m, nil
}

// findChild returns the child that s describes and its manifest, or the zero Record if the child
// can be created.
func (v *Directory) findChild(ctx context.Context, s *SpawnSpec) (Record, composite.Manifest, error) {
	noManifest := composite.Manifest{}
	parent, err := v.getAsOperator(ctx, s.Parent)
	if err != nil {
		return Record{}, noManifest, err
	}
	// If this check followed the read by name, a child that another process creates in between
	// would be reported as a taken name.
	_, nameErr := v.checkNameAvailable(ctx, v.Store, s.Asker, s.Name, &Record{Tenant: cmp.Or(s.Tenant, parent.Tenant)})
	r, err := v.GetByName(ctx, OperatorAsker(), s.Name)
	if problem.Is(err, problem.NotFound) || err == nil && r.IsDeleted() {
		return Record{}, noManifest, store.AsProblem(nameErr)
	}
	if err != nil {
		return Record{}, noManifest, err
	}
	nameTaken := registry.NameTakenError(r.Name)
	if r.Parent == nil || *r.Parent != s.Parent || r.Tenant != cmp.Or(s.Tenant, parent.Tenant) {
		return Record{}, noManifest, nameTaken
	}
	manifestDoc, ok, err := v.Registry.Manifest(ctx, r.ID)
	if err != nil || !ok {
		return Record{}, noManifest, cmp.Or(err, error(nameTaken))
	}
	firstEntries, err := v.Logbook(ctx, r.ID, 1, 1)
	if err != nil || len(firstEntries) == 0 || firstEntries[0].Entry.Kind != logbook.KindBirth {
		return Record{}, noManifest, cmp.Or(err, error(nameTaken))
	}
	birth, err := logbook.ParseBirth(firstEntries[0].Entry.Payload)
	if err != nil {
		return Record{}, noManifest, problem.Wrap(problem.Damaged, err, "logbook of vacant %s: its BIRTH entry cannot be read", r.ID.Short())
	}
	spec, err := substrate.Parse(r.Substrate)
	firstEndpoints := listEndpoints(spec, nil)
	if err == nil && r.AgentVersion > 0 {
		var a definition.Agent
		a, err = v.agentVersion(ctx, r.ID, 1)
		firstEndpoints = listEndpoints(spec, &a)
	}
	if err != nil {
		return Record{}, noManifest, err
	}
	birthManifest := manifestDoc.BirthManifest()
	wantedTools, birthTools := s.Tools, birthManifest.AddedTools
	if s.Path != closedPath {
		wantedTools = subtract(wantedTools, birthManifest.InheritedTools)
	} else if birthTools = birthManifest.Tools(); s.OutboundPolicy == "" {
		wantedTools = slices.Clone(wantedTools)
		for _, endpointURL := range firstEndpoints {
			wantedTools = appendOnce(wantedTools, endpointURL)
		}
	}
	if s.Substrate != "" {
		wanted, err := substrate.Parse(s.Substrate)
		if err != nil || wanted.String() != r.Substrate {
			return Record{}, noManifest, nameTaken
		}
	}
	if birthManifest.BirthPath != s.Path || birth.BirthPath != string(s.Path) || birth.PolicyMutation != s.Rule ||
		s.Capability != "" && !manifestDoc.Graduated && s.Capability != r.Capability ||
		s.Reachability != "" && s.Reachability != birthManifest.Reachability || s.OutboundPolicy != "" && s.OutboundPolicy != birthManifest.OutboundPolicy ||
		s.SecondParent != nil && (birth.SecondParent == nil || *birth.SecondParent != *s.SecondParent) || len(subtract(wantedTools, birthTools)) > 0 || len(subtract(birthTools, wantedTools)) > 0 {
		return Record{}, noManifest, nameTaken
	}
	return r, manifestDoc.Manifest, nil
}
