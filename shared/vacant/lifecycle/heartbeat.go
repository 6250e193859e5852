package lifecycle

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// The heartbeat of a sunk vacant proves only that the key still exists.
const (
	KindHeartbeat     = "HEARTBEAT"
	KindHeartbeatSunk = "HEARTBEAT_SUNK"
)

func (s State) HeartbeatPeriod() (time.Duration, error) {
	switch s {
	case Local, Active:
		return time.Minute, nil
	case Hibernating, Stale:
		return 24 * time.Hour, nil
	case Sunk:
		return 10 * time.Minute, nil
	case Archived:
		return 0, problem.New(problem.Conflict, "scheduler does not run for ARCHIVED vacants")
	}
	return 0, unknownStateError(s)
}

func (s State) HeartbeatKind() string {
	if s == Sunk {
		return KindHeartbeatSunk
	}
	return KindHeartbeat
}

func (s State) HeartbeatPayload(lastActive time.Time) ([]byte, error) {
	switch s {
	case Local, Active:
		return []byte(`{"liveness":true}`), nil
	case Hibernating:
		b := append([]byte(nil), `{"last_active":"`...)
		b = canon.AppendTime(b, lastActive)
		return append(b, `","liveness":"dormant"}`...), nil
	case Stale:
		return []byte(`{"awaiting_revive":true,"liveness":false}`), nil
	case Sunk:
		return []byte(`{"key_in_custody":true,"liveness":false}`), nil
	case Archived:
		return nil, problem.New(problem.Conflict, "ARCHIVED vacants do not emit heartbeats")
	}
	return nil, unknownStateError(s)
}

func unknownStateError(s State) error {
	_, err := ParseState(string(s))
	return err
}
