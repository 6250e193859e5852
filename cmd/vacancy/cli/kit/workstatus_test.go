package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestTheStatusOfAWorkerIsPrintedOnChanges(t *testing.T) {
	a := &App{Now: func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local) }}
	var lines []string
	observe := a.WorkStatusPrinter("fox", func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	turn := &workclient.Turn{Question: json.RawMessage(`{"caller":"` + strings.Repeat("0a", 32) + `"}`)}
	away := problem.New(problem.Unavailable, "connection refused")
	for _, s := range []workclient.Status{
		{Connected: true},
		{Connected: true},
		{Connected: true, Running: 1, Turn: turn},
		{Connected: true, Turn: turn, Ended: true},
		{Err: away},
		{Err: away},
		{Connected: true},
		{Err: away},
		{Connected: true, Running: 1, Turn: turn, Ended: true, Failure: errors.New("a full\x1b disk")},
	} {
		observe(s)
	}
	want := []string{
		"fox is connected", "12:00:00  fox  0a0a0a0a0a0a  answered; 0 running", "fox is not connected: connection refused; connecting again", "fox is connected",
		"fox is not connected: connection refused; connecting again", "fox is connected", `12:00:00  fox  0a0a0a0a0a0a  failed: a full\u001b disk; 1 running`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the lines (-want +got):\n%s", diff)
	}
}
