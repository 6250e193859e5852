package kit

import (
	"runtime/debug"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// StageOrName is the record of the stage in the flag; for a stage not deployed
// from here, only its name.
func (a *App) StageOrName(flag string) (stage.Record, error) {
	name, err := a.StageName(flag)
	if err != nil {
		return stage.Record{}, err
	}
	rec, err := a.stageRecord(name)
	if problem.Is(err, problem.NotFound) {
		return stage.Record{Stage: name}, nil
	}
	return rec, err
}

// BuiltOf is the commit or release that this command was built from, "" if
// unknown.
func BuiltOf() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return strings.TrimSuffix(info.Main.Version, "(devel)")
}
