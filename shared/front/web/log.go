package web

import (
	"math"
	"net/http"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// log returns the page of the transparency log with its checkpoint and a page of events.
func (s *site) log(q *http.Request, r *reader) (*page, error) {
	last := uint64(math.MaxUint64)
	if to := q.URL.Query().Get("to"); to != "" {
		n, err := strconv.ParseUint(to, 10, 53)
		if err != nil || n == 0 {
			return nil, problem.Invalid("to", "the number of an event", httpapi.Clip(to))
		}
		last = n
	}
	c, err := r.checkpoint()
	if err != nil {
		return nil, err
	}
	data := struct {
		Log    *checkpoint
		Events []event
		Older  uint64 // number of the last event on the next page, or 0
	}{Log: c}
	if c != nil {
		if data.Events, data.Older, err = r.eventsUpTo(min(last, c.Size), logEvents); err != nil {
			return nil, err
		}
	}
	return &page{file: "log.html", Title: "Transparency log", Script: "log.js", Seconds: 10, Data: data}, nil
}

func (s *site) event(q *http.Request, r *reader) (*page, error) {
	seq, err := strconv.ParseUint(q.PathValue("seq"), 10, 53)
	if err != nil || seq == 0 {
		return nil, errNoPage
	}
	e, err := r.Event(r.ctx, seq)
	if problem.Is(err, problem.NotFound) {
		err = errNoPage
	}
	if err != nil {
		return nil, err
	}
	return &page{file: "event.html", Title: "Event " + strconv.FormatUint(seq, 10), Script: "log.js", Seconds: 10, Data: eventOf(e)}, nil
}
