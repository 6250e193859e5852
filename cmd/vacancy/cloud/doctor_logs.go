package cloud

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// lines gives take every line of a log group that has a word in it, oldest
// first, since a time (zero: all that is kept), until take says that it has
// enough. A group that is not there is NotFound.
func (c *Cloud) lines(ctx context.Context, group, word string, since time.Time, take func(at time.Time, line []byte) (more bool)) error {
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, FilterPattern: aws.String(`"` + word + `"`)}
	if !since.IsZero() {
		in.StartTime = aws.Int64(since.UnixMilli())
	}
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(c.logs, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Problem(err)
		}
		for _, e := range page.Events {
			if !take(time.UnixMilli(aws.ToInt64(e.Timestamp)), []byte(aws.ToString(e.Message))) {
				return nil
			}
		}
	}
	return nil
}

// tamperedFacts sums up what the sentinel counted.
func (c *Cloud) tamperedFacts(ctx context.Context, stage string) doctor.Tampered {
	var t doctor.Tampered
	err := c.lines(ctx, "/vacancy/"+stage+"/sentinel", "tampered", time.Time{}, func(at time.Time, line []byte) bool {
		var said struct{ Tampered float64 }
		if json.Unmarshal(line, &said) == nil && said.Tampered > 0 {
			t.Rows, t.Last = t.Rows+int(said.Tampered), at
		}
		return true
	})
	switch {
	case problem.Is(err, problem.NotFound):
		return doctor.Tampered{Absent: true}
	case err != nil:
		return doctor.Tampered{Err: err}
	}
	return t
}
