package account

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/hosted"
	"github.com/vacancy-host/vacancy/shared/host/spawning"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

// ChildrenPath reports whether path is where a parent asks for children by its
// own signature: the one route of this door that others than the operator may
// use, and so the one that a public listener has.
func ChildrenPath(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1/vacants/")
	name, tail, _ := strings.Cut(rest, "/")
	return ok && name != "" && tail == "children"
}

// Signed answers POST /v1/vacants/{vacant}/children for a parent that has
// signed what it asks for. What its signature does not fit costs no read, and
// nobody is told which vacants there are: of a parent that is not hosted here
// the refusal is that of every call to it.
func Signed(c Config, asked *spawning.Requests) http.Handler {
	d := &door{c}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/vacants/{vacant}/children", d.route(map[string]handler{
		http.MethodPost: func(w http.ResponseWriter, r *http.Request) error { return d.spawnSigned(w, r, asked) },
	}))
	mux.HandleFunc("/", d.route(nil))
	return d.guard(mux)
}

func (d *door) spawnSigned(w http.ResponseWriter, r *http.Request, asked *spawning.Requests) error {
	r.Body = http.MaxBytesReader(w, r.Body, composite.MaxRequest)
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	q, err := composite.ParseSpawnRequest(body)
	if err != nil {
		return err
	}
	if r.PathValue("vacant") != q.ParentID.String() {
		return problem.Invalid("parent_id", "the id in the path", q.ParentID.String())
	}
	if err := asked.Check(&q); err != nil {
		return err
	}
	if q.SecondaryID != nil {
		// Its consent would be this host's to sign, and nobody has asked it.
		return problem.New(problem.Forbidden, "with: a child of two parents is for who runs the host: one parent does not sign for the other")
	}
	if _, err := d.Vacants.Get(r.Context(), q.ParentID); err != nil {
		return err
	}
	if err := asked.Take(r.Context(), &q); err != nil {
		return err
	}
	err = d.born(w, r, hosted.SpawnSpec{
		Parent: q.ParentID, Path: q.Path, Name: q.Name, Capability: q.Capability, Substrate: q.Substrate,
		Tools: q.Tools, Rule: q.Rule, With: q.SecondaryID, Reach: q.Reach, Outbound: q.Outbound,
	})
	if problem.Is(err, problem.Conflict) || problem.Is(err, problem.Gone) {
		if had, found := d.Vacants.ByName(r.Context(), q.Name); found == nil && (had.Parent == nil || *had.Parent != q.ParentID) {
			// Whose it is, or was, is for who runs the host: it may be a closed child's.
			return problem.New(problem.Conflict, "the name %s is taken", q.Name)
		}
	}
	return err
}
