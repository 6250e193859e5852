package cost

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ParseTemplates reads the templates of a stage's stacks, in any order. Properties that the
// operator cannot choose come from package functions.
func ParseTemplates(templates ...[]byte) (Shape, error) {
	var s Shape
	for i, b := range templates {
		var t struct{ Resources map[string]resource }
		if err := json.Unmarshal(b, &t); err != nil {
			return Shape{}, problem.Wrap(problem.Malformed, err, "template %d is not a CloudFormation template in JSON", i+1)
		}
		for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
			if err := s.readResource(t.Resources[id], id); err != nil {
				return Shape{}, problem.Wrap(problem.Malformed, err, "resource %.60q of type %.60q: %s", id, t.Resources[id].Type, err)
			}
		}
	}
	return s, nil
}

type resource struct {
	Type       string
	Properties json.RawMessage
}

func (r resource) decode(v any) error {
	if len(r.Properties) == 0 {
		return nil
	}
	return json.Unmarshal(r.Properties, v)
}

func (s *Shape) readResource(r resource, id string) error {
	switch r.Type {
	case "AWS::Lambda::Function":
		return s.readFunction(r)
	case "AWS::DynamoDB::GlobalTable":
		return s.readTable(r, id)
	case "AWS::Logs::LogGroup":
		var p struct{ RetentionInDays int }
		err := r.decode(&p)
		s.LogDays = max(s.LogDays, p.RetentionInDays)
		return err
	case "AWS::Budgets::Budget":
		var p struct {
			Budget struct{ BudgetLimit struct{ Amount float64 } }
		}
		err := r.decode(&p)
		s.BudgetUSD = p.Budget.BudgetLimit.Amount
		return err
	case "AWS::StepFunctions::StateMachine":
		s.Transitions = gateTransitions
	case "AWS::WAFv2::WebACL":
		s.ACLs, s.Rules = 1, rulesPerACL
	case "AWS::CloudWatch::Alarm":
		s.Alarms = countAlarms()
	case "AWS::KMS::Key":
		s.Keys++
	case "AWS::SecretsManager::Secret":
		s.Secrets++
	case "AWS::CloudWatch::Dashboard":
		s.Dashboards++
	case "AWS::CloudFront::Distribution":
		s.Edge = true
	}
	return nil
}

func (s *Shape) readFunction(r resource) error {
	var p struct {
		FunctionName                 string
		Architectures                []string
		ReservedConcurrentExecutions *int
		Environment                  struct{ Variables map[string]json.RawMessage }
	}
	if err := r.decode(&p); err != nil {
		return err
	}
	name := p.FunctionName[strings.LastIndex(p.FunctionName, "-")+1:]
	f, ok := functions.Find(name)
	if !ok {
		// A function of another release is not in package functions, so its memory is unknown.
		s.Functions = append(s.Functions, Function{Name: name, Reserved: p.ReservedConcurrentExecutions})
		return nil
	}
	s.addFunction(f, slices.Contains(p.Architectures, "arm64"), p.ReservedConcurrentExecutions)
	added := &s.Functions[len(s.Functions)-1]
	for name, target := range map[string]*float64{"VACANCY_PUTS": &added.ObjectWrites, "VACANCY_GETS": &added.ObjectReads} {
		var text string
		_ = json.Unmarshal(p.Environment.Variables[name], &text) // "" for a function without files
		rate, _ := edge.ParseRate(text)
		*target = rate.PerSecond
	}
	var budget json.Number
	if json.Unmarshal(p.Environment.Variables["VACANCY_MODEL_BUDGET"], (*string)(&budget)) == nil && budget != "" {
		usd, err := budget.Float64()
		if err != nil {
			return fmt.Errorf("VACANCY_MODEL_BUDGET: expected USD, got %.40q", budget)
		}
		s.ModelUSD = usd
	}
	return nil
}

type throughputLimits struct {
	Read  struct{ MaxReadRequestUnits *int }  `json:"ReadOnDemandThroughputSettings"`
	Write struct{ MaxWriteRequestUnits *int } `json:"WriteOnDemandThroughputSettings"`
}

func (s *Shape) readTable(r resource, id string) error {
	type index struct {
		IndexName string
		throughputLimits
	}
	var p struct {
		BillingMode string
		throughputLimits
		GlobalSecondaryIndexes []index
		Replicas               []struct {
			throughputLimits
			GlobalSecondaryIndexes []index
		}
	}
	if err := r.decode(&p); err != nil {
		return err
	}
	if p.BillingMode != "PAY_PER_REQUEST" {
		return fmt.Errorf("expected BillingMode PAY_PER_REQUEST, got %.40q: provisioned tables are billed by the hour", p.BillingMode)
	}
	if len(p.Replicas) > 1 {
		return fmt.Errorf("expected one replica, got %d: each writes everything again", len(p.Replicas))
	}
	t := Table{Name: id, WriteLimit: p.Write.MaxWriteRequestUnits}
	reads := map[string]*int{}
	for _, r := range p.Replicas {
		t.ReadLimit = r.Read.MaxReadRequestUnits
		for _, i := range r.GlobalSecondaryIndexes {
			reads[i.IndexName] = i.Read.MaxReadRequestUnits
		}
	}
	s.Tables = append(s.Tables, t)
	for _, i := range p.GlobalSecondaryIndexes {
		s.Tables = append(s.Tables, Table{Name: id + "/" + i.IndexName, IsIndex: true, ReadLimit: reads[i.IndexName], WriteLimit: i.Write.MaxWriteRequestUnits})
	}
	return nil
}
