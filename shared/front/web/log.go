package web

import (
	"math"
	"net/http"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (s *site) logPage(req *http.Request, r *reader) (*page, error) {
	newestSeq := uint64(math.MaxUint64)
	if param := req.URL.Query().Get("to"); param != "" {
		n, err := strconv.ParseUint(param, 10, 53)
		if err != nil || n == 0 {
			return nil, problem.Invalid("to", "the number of an event", httpapi.QuoteTruncated(param))
		}
		newestSeq = n
	}
	c, err := r.readCheckpoint()
	if err != nil {
		return nil, err
	}
	data := struct {
		Log    *checkpoint
		Events []event
		Older  uint64 // number of the last event on the next page, or 0
	}{Log: c}
	if c != nil {
		if data.Events, data.Older, err = r.eventsUpTo(min(newestSeq, c.Size), logPageSize); err != nil {
			return nil, err
		}
	}
	return &page{file: "log.html", Title: "Transparency log", Script: "log.js", CacheSeconds: 10, Data: data}, nil
}

func (s *site) eventPage(req *http.Request, r *reader) (*page, error) {
	seq, err := strconv.ParseUint(req.PathValue("seq"), 10, 53)
	if err != nil || seq == 0 {
		return nil, errPageNotFound
	}
	e, err := r.Event(r.ctx, seq)
	if problem.Is(err, problem.NotFound) {
		err = errPageNotFound
	}
	if err != nil {
		return nil, err
	}
	return &page{file: "event.html", Title: "Event " + strconv.FormatUint(seq, 10), Script: "log.js", CacheSeconds: 10, Data: newEvent(e)}, nil
}
