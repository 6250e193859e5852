package message

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Directory gives access to the hosted vacants. It is safe for concurrent use.
type Directory interface {
	FindCached(ctx context.Context, id identity.ID) (r vacants.Record, ok bool, err error)
	FindCachedByName(ctx context.Context, name string) (r vacants.Record, ok bool, err error)
	// ListOpen lists at most n vacants in service that answer callers other than their relatives.
	ListOpen(ctx context.Context, n int) ([]identity.ID, error)
}

const (
	cardPage   = "/card"
	healthPage = "/health"
)

type servePageFunc func(http.ResponseWriter, *http.Request, vacants.Record)

func (d *api) pageHandler(path string) http.HandlerFunc {
	name, path, isVacantPath := SplitPath(path)
	var serve servePageFunc
	switch {
	case d.Directory == nil:
		return nil
	case path == cardPage:
		serve = d.serveCard
	case path == healthPage:
		serve = d.serveHealth
	default:
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) {
		// At the root, the page is for the vacant in ?vacant=, or for the only open vacant of the
		// host.
		if !isVacantPath {
			name = r.URL.Query().Get("vacant")
		}
		if isVacantPath || name != "" {
			d.servePage(w, r, name, serve)
			return
		}
		ids, err := d.Directory.ListOpen(r.Context(), 2)
		switch {
		case err != nil:
			d.failInternal(w, r, err)
		case len(ids) == 1:
			d.servePage(w, r, ids[0].String(), serve)
		case len(ids) == 0:
			sendRefusal(w, problem.New(problem.NotFound, "this host has no open vacant; name one with ?vacant=ID or ?vacant=NAME"))
		default:
			sendRefusal(w, problem.New(problem.NotFound, "this host has several vacants; name one with ?vacant=NAME or /v/NAME%s", r.URL.Path))
		}
	}
}

func (d *api) servePage(w http.ResponseWriter, r *http.Request, nameOrID string, serve servePageFunc) {
	var rec vacants.Record
	var ok bool
	id, err := identity.ParseID(nameOrID)
	label := id.Short()
	if err == nil {
		rec, ok, err = d.Directory.FindCached(r.Context(), id)
	} else {
		label = strconv.Quote(nameOrID[:min(len(nameOrID), 80)])
		rec, ok, err = d.Directory.FindCachedByName(r.Context(), nameOrID)
	}
	switch {
	case err != nil:
		d.failInternal(w, r, err)
	// A closed child has no pages for any reader: page requests are unsigned, so its parent cannot
	// be recognized.
	case !ok || rec.Closed:
		sendRefusal(w, problem.New(problem.NotFound, "vacant %s is not hosted here", label))
	default:
		serve(w, r, rec)
	}
}

func (d *api) serveCard(w http.ResponseWriter, r *http.Request, rec vacants.Record) {
	if rec.IsDeleted() {
		sendRefusal(w, problem.New(problem.Gone, "vacant %s was deleted", rec.ID.Short()))
		return
	}
	c, err := card.Parse(rec.Card)
	if err != nil {
		d.failInternal(w, r, problem.Wrap(problem.Damaged, err, "the stored card of %s is damaged", rec.ID.Short()))
		return
	}
	// The reference has the same members.
	m := objectBuilder{}
	m.addString("vacant_id", rec.ID.String())
	m.addString("capability_text", c.CapabilityText)
	if c.Endpoint == "" {
		m.addRaw("endpoint", []byte("null"))
	} else {
		m.addString("endpoint", c.Endpoint)
	}
	m.addRaw("halo_version", strconv.AppendInt(nil, c.HaloVersion, 10))
	m.addString("capability_card_blob_hex", hex.EncodeToString(rec.Card))
	etag := identity.Sum(rec.Card).String()[:32]
	if rec.Memory { // memory is an addition to the reference's page
		m.addRaw("memory", []byte("true"))
		etag += "-memory"
	}
	etag = `"` + etag + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "public, max-age=10")
	// Lambda may split the list into several values.
	etags := strings.Split(strings.Join(r.Header.Values("If-None-Match"), ","), ",")
	if slices.ContainsFunc(etags, func(tag string) bool {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		return tag == etag || tag == "*"
	}) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	httpapi.Send(w, http.StatusOK, append(m.b, '}'))
}

func (d *api) serveHealth(w http.ResponseWriter, _ *http.Request, rec vacants.Record) {
	m := objectBuilder{}
	m.addString("vacant_id", rec.ID.String())
	m.addString("state", string(rec.State))
	m.addString("name", rec.Name)
	w.Header().Set("Cache-Control", "no-store")
	httpapi.Send(w, http.StatusOK, append(m.b, '}'))
}
