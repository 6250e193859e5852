package stacks_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Notices take only some of the worker's instances, and turns the others. A message that
// fails for long is kept for a person.
func TestTheQueuesFeedTheWorkerAndLoseNothing(t *testing.T) {
	for context, want := range map[string]map[string]any{
		"": {"Tasks": 2.0, "Pushes": 2.0}, "worker:4": {"Tasks": 2.0, "Pushes": 2.0}, "worker:20": {"Tasks": 15.0, "Pushes": 5.0},
	} {
		set := standard
		if context != "" {
			set = map[string]any{"limits": context}
		}
		functions := synth(t, set).template(t, "functions")
		instances := map[string]any{}
		for name, receives := range map[string]int{"Tasks": 65, "Pushes": 20} {
			q, m := functions.Resources[name].Properties, functions.Resources[name+"Sent"].Properties
			instances[name] = at(m, "ScalingConfig", "MaximumConcurrency")
			got := fmt.Sprint(readable(at(m, "EventSourceArn")), readable(at(m, "FunctionName")), at(m, "FunctionResponseTypes"),
				q["SqsManagedSseEnabled"], q["VisibilityTimeout"], q["MessageRetentionPeriod"], readable(at(q, "RedrivePolicy", "deadLetterTargetArn")), at(q, "RedrivePolicy", "maxReceiveCount"))
			if want := fmt.Sprintf("functions.%s.Arn${Worker}[ReportBatchItemFailures] true 1200 86400functions.Dead.Arn%d", name, receives); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if diff := cmp.Diff(want, instances); diff != "" {
			t.Errorf("%q: instances for each queue (-want +got):\n%s", context, diff)
		}
		if seconds := functions.Resources["Worker"].Properties["Timeout"]; seconds != 900.0 {
			t.Errorf("the worker has %v seconds, want five minutes less than a message is hidden", seconds)
		}
	}
}

// A stream lasts as long as its turn; other answers are whole.
func TestAgentAloneStreams(t *testing.T) {
	for id, u := range synth(t, standard).template(t, "functions").of("AWS::Lambda::Url") {
		want := "BUFFERED"
		if at(u.Properties, "TargetFunctionArn", "Fn::GetAtt", 0) == "Agent" {
			want = "RESPONSE_STREAM"
		}
		if u.Properties["InvokeMode"] != want {
			t.Errorf("%s answers as %v, want %s", id, u.Properties["InvokeMode"], want)
		}
	}
}
