package gatetest

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

type testCase struct {
	name       string
	dailyLimit int       // 0 means the default
	mode       gate.Mode // "" means the default
	run        func(*scene)
}

func (c *testCase) policy() gate.Policy {
	p := gate.DefaultPolicy()
	if c.dailyLimit > 0 {
		p.DailyLimit = c.dailyLimit
	}
	if c.mode != "" {
		p.Mode = c.mode
	}
	return p
}

func acceptedRecord(position uint64, slots int) record {
	return record{
		Decision: "accepted at commit", Position: position, Findings: true, Open: true, Graduated: true,
		Visibility: lifecycle.Public, Slots: slots, ParentLog: logbook.KindGraduated, ChildLog: logbook.KindGraduated,
	}
}

func closedRecord(decision, detail string, position uint64) record {
	return record{Decision: decision, Detail: detail, Position: position, ParentLog: logbook.KindSpawn, ChildLog: logbook.KindBirth}
}

func cases() []testCase {
	return slices.Concat(graduationCases(), unstoredCases(), refusalCases(), collusionCases())
}

func graduationCases() []testCase {
	return []testCase{
		{name: "a child with the consent of both is accepted", run: func(s *scene) {
			s.wantOutcome(s.request(s.parent, s.child, "drafts contracts"), acceptedRecord(1, 1))
		}},
		{name: "the same request after success is the stored outcome", run: func(s *scene) {
			sub := s.request(s.parent, s.child, "drafts contracts")
			first := s.wantOutcome(sub, acceptedRecord(1, 1))
			second := s.wantOutcome(sub, acceptedRecord(1, 1))
			if first.DecidedAt != second.DecidedAt || first.Outcome.Seq != second.Outcome.Seq {
				s.Errorf("Submit() again = %v, %v, want %v, %v", second.DecidedAt, second.Outcome, first.DecidedAt, first.Outcome)
			}
		}},
		{name: "the day's slots are taken by successes alone", dailyLimit: 1, run: func(s *scene) {
			s.wantOutcome(s.request(s.stranger, s.other, "reads"),
				closedRecord("refused at consent by GraduationConsentError", "graduation parent_id STRANGER does not match child's manifest parent PARENT", 1))
			s.wantOutcome(s.request(s.parent, s.child, "drafts contracts"), acceptedRecord(1, 1))
			limitRecord := record{
				Decision: "refused at rate_limit by GraduationRateLimitError", Detail: "parent PARENT hit graduation rate limit (1 in last 24h, limit 1)",
				Position: 2, Slots: 1, ParentLog: logbook.KindGraduated, ChildLog: logbook.KindBirth,
			}
			s.wantOutcome(s.request(s.parent, s.other, "reads"), limitRecord)
			// If the child is already open, the rate is checked first.
			limitRecord.Position, limitRecord.Open, limitRecord.Graduated, limitRecord.Visibility, limitRecord.ChildLog = 2, true, true, lifecycle.Public, logbook.KindGraduated
			s.wantOutcome(s.request(s.parent, s.child, "drafts wills"), limitRecord)
		}},
		{name: "a child that is open already is not opened again", run: func(s *scene) {
			s.wantOutcome(s.request(s.parent, s.child, "drafts contracts"), acceptedRecord(1, 1))
			openRecord := acceptedRecord(2, 1)
			openRecord.Decision, openRecord.Detail, openRecord.Findings = "refused at rate_limit by GraduationError", "child CHILD is open already", false
			s.wantOutcome(s.request(s.parent, s.child, "drafts wills"), openRecord)
		}},
		{name: "a child has a place of its own for each attempt", run: func(s *scene) {
			for i, id := range []identity.ID{s.child, s.other} {
				s.wantOutcome(s.request(s.parent, id, "drafts contracts"), acceptedRecord(1, i+1))
			}
		}},
	}
}

// unstoredCases returns cases that are refused before an attempt is stored.
func unstoredCases() []testCase {
	return []testCase{
		{name: "a text that nobody signed is refused at the handler", run: func(s *scene) {
			sub := s.request(s.parent, s.child, "drafts contracts")
			sub.Request.CapabilityText += " and wills"
			s.wantSubmitError(sub, problem.ConsentRequired, "graduation request signatures did not verify")
		}},
		{name: "a signature that is missing is refused at the handler", run: func(s *scene) {
			sub := s.request(s.parent, s.child, "drafts contracts")
			sub.Request.SignatureParent = nil
			s.wantSubmitError(sub, problem.ConsentRequired, "graduation request signatures did not verify")
		}},
		{name: "who is nobody's child is not known", run: func(s *scene) {
			s.wantSubmitError(s.request(s.parent, s.stranger, "drafts contracts"), problem.NotFound, "unknown child STRANGER")
		}},
	}
}

func refusalCases() []testCase {
	return []testCase{
		{name: "another's consent is not the parent's", run: func(s *scene) {
			s.wantOutcome(s.request(s.stranger, s.child, "drafts contracts"),
				closedRecord("refused at consent by GraduationConsentError", "graduation parent_id STRANGER does not match child's manifest parent PARENT", 1))
		}},
		{name: "a revoked child does not consent", run: func(s *scene) {
			sub := s.request(s.parent, s.child, "drafts contracts")
			s.Revoke(s.T, s.child)
			view, err := s.Submit(s.T, sub)
			if err != nil || view.Phase != graduation.Refused || view.Step != gate.StepConsent || view.Refusal.Error != gate.ErrorName(problem.Revoked) {
				s.Errorf("Submit() = %+v, %v, want refused at consent by %s", view, err, gate.ErrorName(problem.Revoked))
			}
		}},
	}
}

func collusionCases() []testCase {
	return []testCase{
		{name: "evidence that is missing refuses in strict mode, and the same request passes later", mode: gate.ModeStrict, run: func(s *scene) {
			sub := s.request(s.parent, s.child, "drafts contracts")
			view, err := s.Submit(s.T, sub)
			if err != nil {
				s.Fatalf("Submit() = %v, want a decision", err)
			}
			got := s.readRecord(&view, s.child)
			got.Detail = ""
			want := closedRecord("refused at collusion by GraduationCollusionError", "", 1)
			want.Findings = true
			s.wantRecord(want, got)
			s.SetPolicy(s.T, gate.DefaultPolicy())
			s.wantOutcome(sub, acceptedRecord(2, 1))
		}},
		{name: "a child that is served by what serves its parent is refused", run: func(s *scene) {
			s.parent, s.child = s.SameSubstratePair(s.T)
			refusedRecord := closedRecord("refused at collusion by GraduationCollusionError",
				"collusion signals too high for graduation: controller=0.00, substrate=1.00, stylo=0.00 (threshold 0.6)", 1)
			refusedRecord.Findings = true
			s.wantOutcome(s.request(s.parent, s.child, "drafts contracts"), refusedRecord)
		}},
	}
}
