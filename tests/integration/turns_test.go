package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/vacancy-host/vacancy/shared/await"
)

var longTurn = flag.Duration("turn", 10*time.Minute, "the turn whose events are pushed at a deployed stage, at most 13m")

// A stage of the least worst day runs one turn of a vacant at a time.
func TestTwentyPaidTasksOfOneSlowVacantAreAnsweredAndChargedOnce(t *testing.T) {
	s := shared(t)
	if s.aws != nil && testing.Short() {
		t.Skip("takes minutes: tests/run deep, or tests/realaws")
	}
	const tasks, price = 20, 2000
	a, name := s.tenant(t, "payer"+word(t)), "slow"+word(t)
	id := s.agent(t, name, "", object{"provider": "mock", "system": "```mock\nwait: 2s\ntext: done\n```"})
	a.read(nil, "price", name, "0.002")
	before := a.balance()
	var sent []string
	for i := range tasks {
		task, _ := stateOf(t, a.rpcWith(id, "SendMessage", another(i, message("hi", `"returnImmediately":true`))))
		sent = append(sent, task)
	}
	for _, task := range sent {
		a.awaitAnswer(id, task)
	}
	if paid := before - a.balance(); paid != tasks*price {
		t.Errorf("%d tasks were charged %v, want %d", tasks, paid, tasks*price)
	}
}

// While a turn runs, a notice of its events sends itself again and again, which Lambda takes for an
// endless loop after 16 times unless the function allows that.
func TestALongTurnIsPushedToItsEnd(t *testing.T) {
	s := shared(t)
	if s.aws != nil {
		t.Skip("takes ten minutes: tests/realaws; tests/lambda has a faster clock")
	}
	t.Parallel() // after the other tests, so it has the stage to itself
	a, receiver := s.tenant(t, "pushed"+word(t)), s.vacant(t)
	hook := s.URL + "/v/" + receiver.String() + "/text"
	isReachable := strings.HasPrefix(hook, "https:")
	if !isReachable { // URLs of a local AWS are of this machine, to which functions send nothing
		hook = "https://nobody.invalid/hook"
	}
	id := s.agent(t, "long"+word(t), "", object{"provider": "mock", "system": fmt.Sprintf("```mock\nwait: %s\ntext: done\n```", *longTurn)})
	began := time.Now()
	// A delivery of A2A 0.3 is JSON, which is a text to the receiver.
	task, _ := stateOf(t, a.rpcWith(id, "message/send", fmt.Sprintf(`{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]},
		"configuration":{"blocking":false,"pushNotificationConfig":{"url":%q,"authentication":{"schemes":["Bearer"],"credentials":%q}}}}`, hook, a.key)))
	time.Sleep(*longTurn)
	a.awaitAnswer(id, task)
	end := began.Add(*longTurn)
	// The chain of notices was not stopped after some seven minutes: they come every 30 s.
	s.lines(t, "worker", began, func(all []line) bool {
		for _, l := range all {
			if strings.HasSuffix(l.Queue, "-pushes") && l.At.After(end.Add(-2*time.Minute)) && l.At.Before(end) {
				return true
			}
		}
		return false
	})
	dead := s.queue(t, "dead")
	out, err := dead.client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &dead.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages}})
	if err != nil || out.Attributes["ApproximateNumberOfMessages"] != "0" {
		t.Errorf("the queue of dead letters has %v messages, %v; want none", out.Attributes, err)
	}
	if !isReachable {
		t.Log("no delivery was received: a local AWS has no public URL")
		return
	}
	deliveries := func() (count int, text string) {
		listed := a.rpcWith(receiver, "ListTasks", `{"includeArtifacts":true,"historyLength":1}`)
		b, err := json.Marshal(listed)
		if err != nil {
			t.Fatal(err)
		}
		return int(listed["totalSize"].(float64)), string(b)
	}
	await.Until(t, "the end of the task is delivered", func() bool {
		_, text := deliveries()
		return strings.Contains(text, task) && strings.Contains(text, "completed")
	})
	n, _ := deliveries()
	t.Logf("%d deliveries were received", n)
}
