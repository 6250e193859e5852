package cost

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// GraduationModel is an accepted attempt at the gate in the estimate. Its units
// are at least those counted by the gate's tests, with room for a page of
// answers of each compared vacant.
type GraduationModel struct {
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
	Lines      float64 `json:"log_lines"`
	HandlerMS  float64 `json:"billed_ms_of_the_handler"`
	StepMS     float64 `json:"billed_ms_of_a_step"` // most are cold starts: graduations are rare
	Looks      float64 `json:"looks"`               // how often the waiting party polls
	KMS        float64 `json:"kms_requests"`
}

// DefaultGraduation has a child and a parent that are both hosted here.
func DefaultGraduation() GraduationModel {
	return GraduationModel{WriteUnits: 60, ReadUnits: 120, Lines: 30, HandlerMS: 50, StepMS: 400, Looks: 5, KMS: 3}
}

// graduations is the unit in formulas.
const graduations = "graduations"

// Graduations returns the lines for n graduations.
func (m GraduationModel) Graduations(s Shape, l List, n float64) []Line {
	if s.Transitions == 0 {
		return nil
	}
	handler, _ := s.Function(functions.Graduate.Name)
	step := Function{MemoryMB: functions.Consent.Memory, Arm: true}
	if i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Step }); i >= 0 {
		step = s.Functions[i]
	}
	steps := float64(s.Transitions - 2) // all but start and end
	started := 1 + m.Looks + steps
	busy := (1+m.Looks)*gigabytes(handler)*m.HandlerMS + steps*gigabytes(step)*m.StepMS
	return []Line{
		l.line("transitions", Transitions, n*float64(s.Transitions), "of one that is accepted; a refusal has fewer, or one more",
			"%d x %s %s", s.Transitions, number(n), graduations),
		l.line("invocations", LambdaRequests, n*started, "the handler, and each step", "%s x %s %s", number(started), number(n), graduations),
		l.line("compute", compute(step), n*busy/1000, "starting the functions is billed too",
			"(%s x %d MB x %s ms + %s x %d MB x %s ms) x %s %s", number(1+m.Looks), handler.MemoryMB, number(m.HandlerMS), number(steps), step.MemoryMB, number(m.StepMS),
			number(n), graduations),
		l.line("written", WriteUnits, n*m.WriteUnits, "the attempt, and the one transaction that opens the child", "%s units x %s %s", number(m.WriteUnits), number(n), graduations),
		l.line("read", ReadUnits, n*m.ReadUnits, "most of it evidence: 50 answers of each vacant at most", "%s units x %s %s", number(m.ReadUnits), number(n), graduations),
		l.line("log lines", LogBytes, n*m.Lines*DefaultModel().LineBytes/gib, "the functions' and the machine's",
			"%s x %s bytes x %s %s / 2^30", number(m.Lines), number(DefaultModel().LineBytes), number(n), graduations),
		l.line("opening keys", KMSRequests, n*m.KMS, "of the day's texts, and two seeds", "%s requests x %s %s", number(m.KMS), number(n), graduations),
	}
}
