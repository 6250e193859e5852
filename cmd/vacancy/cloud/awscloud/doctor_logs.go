package awscloud

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// scanLogLines calls handle for each line of a log group that contains word, oldest first, until
// handle returns false. It skips lines that are older than since, unless since is zero. The error is
// NotFound if the group does not exist.
func (c *Cloud) scanLogLines(ctx context.Context, group, word string, since time.Time, handle func(eventTime time.Time, line []byte) (more bool)) error {
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, FilterPattern: aws.String(`"` + word + `"`)}
	if !since.IsZero() {
		in.StartTime = aws.Int64(since.UnixMilli())
	}
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(c.logs, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return ToProblem(err)
		}
		for _, e := range page.Events {
			if !handle(time.UnixMilli(aws.ToInt64(e.Timestamp)), []byte(aws.ToString(e.Message))) {
				return nil
			}
		}
	}
	return nil
}

func (c *Cloud) fetchTamperReports(ctx context.Context, stage string) doctor.TamperReports {
	var t doctor.TamperReports
	err := c.scanLogLines(ctx, "/vacancy/"+stage+"/tamper", "tampered", time.Time{}, func(eventTime time.Time, line []byte) bool {
		var record struct{ Tampered float64 }
		if json.Unmarshal(line, &record) == nil && record.Tampered > 0 {
			t.Rows, t.LastReport = t.Rows+int(record.Tampered), eventTime
		}
		return true
	})
	switch {
	case problem.Is(err, problem.NotFound):
		return doctor.TamperReports{Absent: true}
	case err != nil:
		return doctor.TamperReports{Err: err}
	}
	return t
}

// jobsPeriod limits how far back the logs are searched for runs of background functions. It is long
// because the indexer may have no work for hours.
const jobsPeriod = 24 * time.Hour

func (c *Cloud) fetchJobs(ctx context.Context, stage string, since time.Time) map[string]doctor.Job {
	jobs := map[string]doctor.Job{}
	for _, f := range functions.All() {
		if f.Check.Name == "" {
			continue
		}
		j := doctor.Job{Absent: true}
		err := c.scanLogLines(ctx, "/vacancy/"+stage+"/"+f.Name, "verdict", since, func(eventTime time.Time, line []byte) bool {
			var record struct{ Msg, Verdict string }
			if json.Unmarshal(line, &record) == nil && record.Msg == "done" {
				j = doctor.Job{LastRun: eventTime, Verdict: record.Verdict}
			}
			return true
		})
		if err != nil && !problem.Is(err, problem.NotFound) {
			j = doctor.Job{Err: err}
		}
		jobs[f.Name] = j
	}
	return jobs
}
