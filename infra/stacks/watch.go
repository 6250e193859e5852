package stacks

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbudgets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/tamper"
)

// newWatchStack creates the log groups before the functions, so that the groups have our retention.
func newWatchStack(app constructs.Construct, in Input, d dataStack) awscdk.Stack {
	s := newStack(app, in, "watch", "Vacancy "+in.Settings.Stage+": logs, alarms and dashboard")
	s.AddDependency(d.stack, str("its alarms are about the tables"))
	for _, f := range functions.All() {
		newLogGroup(s, in, d, f.Name, in.Settings.LogGroup(f.Name))
	}
	newLogGroup(s, in, d, gateName, gateLogGroup(in))
	topic := newAlarmTopic(s, in, d)
	newAlarms(s, in, d, topic)
	addOutput(s, "AlarmTopic", topic.TopicArn(), "topic that alarms are sent to")
	if in.Settings.Dashboard {
		board := newDashboard(s, in, d)
		addOutput(s, "Dashboard", board.DashboardName(), "CloudWatch dashboard of the stage")
	}
	if in.Settings.Email != "" && !in.Settings.LacksBudgets {
		newBudget(s, in)
	}
	return s
}

func newLogGroup(s awscdk.Stack, in Input, d dataStack, owner, name string) {
	g := awslogs.NewLogGroup(s, str("Log-"+owner), &awslogs.LogGroupProps{
		LogGroupName: str(name), EncryptionKey: d.atRestKey,
		// A log group that outlived its stage would block the next stage of that name.
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	setLogicalID(g, logicalID(owner)+"Log")
	g.Node().DefaultChild().(awslogs.CfnLogGroup).SetRetentionInDays(num(in.Settings.RetentionDays))
}

func newAlarmTopic(s awscdk.Stack, in Input, d dataStack) awssns.Topic {
	t := awssns.NewTopic(s, str("Alarms"), &awssns.TopicProps{
		TopicName: str(in.Settings.ResourceName("alarms")), DisplayName: str("Vacancy " + in.Settings.Stage),
		MasterKey: d.atRestKey, EnforceSSL: yes(),
	})
	setLogicalID(t, "Alarms")
	t.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Alarms"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(str("cloudwatch.amazonaws.com"), nil)},
		Actions: strs("sns:Publish"), Resources: &[]*string{t.TopicArn()},
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.Account()}},
	}))
	if in.Settings.Email != "" {
		t.AddSubscription(awssnssubscriptions.NewEmailSubscription(str(in.Settings.Email), nil))
	}
	return t
}

func newMetric(namespace, name, statistic string, minutes int, dimensions map[string]*string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: str(namespace), MetricName: str(name), Statistic: str(statistic),
		Period: awscdk.Duration_Minutes(num(minutes)), DimensionsMap: &dimensions,
	})
}

func logMetric(in Input, function, name, statistic string, minutes int) awscloudwatch.Metric {
	return newMetric("Vacancy", name, statistic, minutes, map[string]*string{"stage": str(in.Settings.Stage), "function": str(function)})
}

func lambdaMetric(in Input, function, name, statistic string, minutes int) awscloudwatch.Metric {
	return newMetric("AWS/Lambda", name, statistic, minutes, map[string]*string{"FunctionName": str(in.Settings.ResourceName(function))})
}

func queueMetric(in Input, queue, name string) awscloudwatch.Metric {
	return newMetric("AWS/SQS", name, "Maximum", 5, map[string]*string{"QueueName": str(in.Settings.ResourceName(queue))})
}

func sumMetrics(minutes int, metrics ...awscloudwatch.IMetric) awscloudwatch.IMetric {
	metricsByID, expression := map[string]awscloudwatch.IMetric{}, ""
	for i, m := range metrics {
		id := "m" + strconv.Itoa(i+1)
		metricsByID[id] = m
		expression += fmt.Sprintf("+FILL(%s,0)", id)
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: str(expression[1:]), UsingMetrics: &metricsByID, Period: awscdk.Duration_Minutes(num(minutes)), Label: str("sum"),
	})
}

// missingCanaryMetric returns the number of canaries that were due in the last day, or 0 if the
// tamper detector saw one.
func missingCanaryMetric(in Input) awscloudwatch.IMetric {
	const day = 24 * 60
	rule := map[string]*string{"RuleName": str(in.Settings.ResourceName(functions.Admin.RuleName()))}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: str("IF(FILL(m2,0)<1,m1,0)"), Period: awscdk.Duration_Minutes(num(day)), Label: str("unseen"),
		UsingMetrics: &map[string]awscloudwatch.IMetric{
			"m1": newMetric("AWS/Events", "Invocations", "Sum", day, rule),
			"m2": logMetric(in, "tamper", tamper.CanaryMetric, "Sum", day),
		},
	})
}

// newAlarms ignores missing data, which means that no call came or that no call failed.
func newAlarms(s awscdk.Stack, in Input, d dataStack, topic awssns.ITopic) {
	tableThrottles := func(table *string) awscloudwatch.IMetric {
		dimensions := map[string]*string{"TableName": table}
		return sumMetrics(5, newMetric("AWS/DynamoDB", "ReadThrottleEvents", "Sum", 5, dimensions), newMetric("AWS/DynamoDB", "WriteThrottleEvents", "Sum", 5, dimensions))
	}
	var lambdaThrottles, droppedInvocations []awscloudwatch.IMetric
	for _, f := range functions.All() {
		if f.Queues != "" || f.IsInvoked() {
			droppedInvocations = append(droppedInvocations, lambdaMetric(in, f.Name, "RecursiveInvocationsDropped", "Sum", 5))
		}
		if f.AlarmsOnThrottle() {
			lambdaThrottles = append(lambdaThrottles, lambdaMetric(in, f.Name, "Throttles", "Sum", 5))
		}
	}
	gateDimensions := map[string]*string{"StateMachineArn": gateARN(s, in)}
	type alarm struct {
		id, says string
		metric   awscloudwatch.IMetric
		least    float64 // lowest value of the metric that raises the alarm
		times    int     // number of consecutive periods with such a value
	}
	definitions := []alarm{
		{"tampered", "A row was changed or removed, which the host never does. Run vacancy verify.", logMetric(in, "tamper", tamper.TamperedMetric, "Sum", 1), 1, 1},
		// The age of the oldest message is not used, because a slow turn holds its message for
		// minutes.
		{"tasks-late", "Tasks have waited for their turns for five minutes: all instances of worker are busy. Raise worstDay, or limits=worker:N.",
			newMetric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Minimum", 5, map[string]*string{"QueueName": str(in.Settings.ResourceName(functions.TaskQueue))}), 1, 1},
		{"tasks-lost", "Some messages of tasks or notifications could not be handled. Run vacancy tail --host aws --function worker, then empty the queue.",
			queueMetric(in, deadQueueName, "ApproximateNumberOfMessagesVisible"), 1, 1},
		{"message-slow", "One percent of calls take three seconds or more.", logMetric(in, "message", "ms", "p99", 5), 3000, 3},
		{"functions-throttled", "Lambda refuses requests: reserved concurrency is used up.", sumMetrics(5, lambdaThrottles...), 1, 3},
		{"rows-throttled", "The table of rows refuses requests: its throughput limits are reached.", tableThrottles(d.rows.TableName()), 1, 3},
		{"docs-throttled", "The table of documents refuses requests: its throughput limits are reached.", tableThrottles(d.docs.TableName()), 1, 3},
		{"recursion-stopped", "Lambda mistook a chain of messages for an endless loop and stopped turns or notifications. Deploy the stage again; this allows such chains.", sumMetrics(5, droppedInvocations...), 1, 1},
		{"think-throttled", "Models are not called: all instances of think are busy. Raise worstDay, or limits=message:N,think:N.", lambdaMetric(in, "think", "Throttles", "Sum", 5), 10, 3},
		{"gate-fails", "An attempt to graduate ended without a verdict: neither accepted nor refused. Run vacancy doctor --host aws.",
			sumMetrics(5, newMetric("AWS/States", "ExecutionsFailed", "Sum", 5, gateDimensions), newMetric("AWS/States", "ExecutionsTimedOut", "Sum", 5, gateDimensions)), 1, 1},
		{"usage-lost", "The stream dropped rows before they were added to usage. Run vacancy verify to list the affected hours, and vacancy usage --recount to correct them.",
			logMetric(in, "meter", "trimmed", "Sum", 5), 1, 1},
		{"tamper-blind", "The tamper detector has seen none of the day's canaries, so changed rows may go unnoticed. Run vacancy doctor --host aws.",
			missingCanaryMetric(in), 3, 1},
		{"tamper-behind", "The tamper detector checks rows an hour late or more.",
			lambdaMetric(in, "tamper", "IteratorAge", "Maximum", 5), 3600 * 1000, 1},
		{"tamper-lost", "The tamper detector could not check some changes of rows. Run vacancy verify, then empty the queue.",
			queueMetric(in, "lost", "ApproximateNumberOfMessagesVisible"), 1, 1},
	}
	for _, f := range functions.All() {
		if f.Alarm.Name != "" {
			definitions = append(definitions, alarm{f.Alarm.Name, f.Alarm.Description, failureMetric(in, f), float64(f.Alarm.MinFailures), 1})
		}
	}
	for _, a := range definitions {
		resource := awscloudwatch.NewAlarm(s, str(a.id), &awscloudwatch.AlarmProps{
			AlarmName: str(in.Settings.ResourceName(a.id)), AlarmDescription: str(a.says), Metric: a.metric,
			Threshold: &a.least, ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
			EvaluationPeriods: num(a.times), TreatMissingData: awscloudwatch.TreatMissingData_NOT_BREACHING,
		})
		setLogicalID(resource, "Alarm"+camelCase(a.id))
		resource.AddAlarmAction(awscloudwatchactions.NewSnsAction(topic))
	}
}

func failureMetric(in Input, f functions.Function) awscloudwatch.IMetric {
	name := "Errors"
	if f.URL {
		name = "Url5xxCount"
	}
	errorMetric := lambdaMetric(in, f.Name, name, "Sum", f.Alarm.PeriodMinutes)
	if !f.Alarm.CountsMissedRuns {
		return errorMetric
	}
	rule := map[string]*string{"RuleName": str(in.Settings.ResourceName(f.RuleName()))}
	return sumMetrics(f.Alarm.PeriodMinutes, errorMetric, newMetric("AWS/Events", "FailedInvocations", "Sum", f.Alarm.PeriodMinutes, rule))
}

func newDashboard(s awscdk.Stack, in Input, d dataStack) awscloudwatch.Dashboard {
	graph := func(title string, left ...awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: str(title), Width: num(8), Left: &left})
	}
	messageMetric := func(name, statistic string) awscloudwatch.IMetric {
		return logMetric(in, "message", name, statistic, 5)
	}
	tableMetrics := func(name string) []awscloudwatch.IMetric {
		var metrics []awscloudwatch.IMetric
		for _, t := range []*string{d.rows.TableName(), d.docs.TableName()} {
			metrics = append(metrics, newMetric("AWS/DynamoDB", name, "Sum", 5, map[string]*string{"TableName": t}))
		}
		return metrics
	}
	gateMetric := func(name string) awscloudwatch.IMetric {
		return newMetric("AWS/States", name, "Sum", 5, map[string]*string{"StateMachineArn": gateARN(s, in)})
	}
	board := awscloudwatch.NewDashboard(s, str("Dashboard"), &awscloudwatch.DashboardProps{
		DashboardName: str("vacancy-" + in.Settings.Stage),
		Widgets: &[]*[]awscloudwatch.IWidget{
			{graph("Calls", messageMetric("calls", "Sum"), messageMetric("refused", "Sum"), messageMetric("failed", "Sum")),
				graph("Milliseconds", messageMetric("ms", "p50"), messageMetric("ms", "p99")),
				graph("Round trips and units of a call", messageMetric("trips", "Average"), messageMetric("wcu", "Average"), messageMetric("rcu", "Average"))},
			{graph("Write units", tableMetrics("ConsumedWriteCapacityUnits")...),
				graph("Read units", tableMetrics("ConsumedReadCapacityUnits")...),
				graph("Rows changed or removed", logMetric(in, "tamper", "tampered", "Sum", 5))},
			{graph("Admin API and export", logMetric(in, "admin", "calls", "Sum", 5), logMetric(in, "export", "calls", "Sum", 5)),
				graph("Instances", lambdaMetric(in, "message", "ConcurrentExecutions", "Maximum", 5), lambdaMetric(in, "message", "Throttles", "Sum", 5)),
				graph("Sweeper and tamper detector", lambdaMetric(in, "sweeper", "Errors", "Sum", 5), lambdaMetric(in, "tamper", "IteratorAge", "Maximum", 5))},
			{graph("Registry and search", logMetric(in, "registry", "calls", "Sum", 5), logMetric(in, "search", "calls", "Sum", 5)),
				graph("Milliseconds of a search", logMetric(in, "search", "ms", "p50", 5), logMetric(in, "search", "ms", "p99", 5)),
				graph("Indexer and checkpointer", lambdaMetric(in, "indexer", "Errors", "Sum", 5), lambdaMetric(in, "indexer", "Duration", "Maximum", 5), lambdaMetric(in, "checkpointer", "Errors", "Sum", 5))},
			{graph("Attempts to graduate", gateMetric("ExecutionsSucceeded"), gateMetric("ExecutionsFailed"), gateMetric("ExecutionsTimedOut")),
				graph("Turns of models", logMetric(in, "think", "calls", "Sum", 5), logMetric(in, "think", "failed", "Sum", 5), lambdaMetric(in, "think", "Throttles", "Sum", 5)),
				graph("Milliseconds of a turn", logMetric(in, "think", "ms", "p50", 5), logMetric(in, "think", "ms", "p99", 5))},
			{graph("A2A", logMetric(in, "agent", "calls", "Sum", 5), logMetric(in, "agent", "refused", "Sum", 5), logMetric(in, "agent", "failed", "Sum", 5)),
				graph("A2A in the background", logMetric(in, "worker", "calls", "Sum", 5), logMetric(in, "worker", "failed", "Sum", 5), queueMetric(in, deadQueueName, "ApproximateNumberOfMessagesVisible")),
				graph("Seconds in the queue", queueMetric(in, functions.TaskQueue, "ApproximateAgeOfOldestMessage"), queueMetric(in, functions.PushQueue, "ApproximateAgeOfOldestMessage"))},
		},
	})
	setLogicalID(board, "Board")
	return board
}

// newBudget covers the complete account. A budget by tag would send no mail until a person
// activates the tag.
func newBudget(s awscdk.Stack, in Input) {
	b := awsbudgets.NewCfnBudget(s, str("Budget"), &awsbudgets.CfnBudgetProps{
		Budget: &awsbudgets.CfnBudget_BudgetDataProperty{
			BudgetName: str(in.Settings.ResourceName("day")), BudgetType: str("COST"), TimeUnit: str("DAILY"),
			// Credits and refunds would hide the cost of a new account.
			CostTypes:   &awsbudgets.CfnBudget_CostTypesProperty{IncludeCredit: flag(false), IncludeRefund: flag(false)},
			BudgetLimit: &awsbudgets.CfnBudget_SpendProperty{Amount: num(in.Settings.Budget), Unit: str("USD")},
		},
		NotificationsWithSubscribers: []any{&awsbudgets.CfnBudget_NotificationWithSubscribersProperty{
			Notification: &awsbudgets.CfnBudget_NotificationProperty{
				NotificationType: str("ACTUAL"), ComparisonOperator: str("GREATER_THAN"), Threshold: num(100), ThresholdType: str("PERCENTAGE")},
			Subscribers: []any{&awsbudgets.CfnBudget_SubscriberProperty{SubscriptionType: str("EMAIL"), Address: str(in.Settings.Email)}},
		}},
	})
	b.OverrideLogicalId(str("Budget"))
}
