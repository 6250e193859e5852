package awscloud

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (c *Cloud) Groups(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(c.logs, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, Problem(err)
		}
		for _, g := range page.LogGroups {
			names = append(names, aws.ToString(g.LogGroupName))
		}
	}
	return names, nil
}

// Limits of a tail. A line may appear some seconds after its time, and later than newer lines. Each
// read therefore starts earlier than the last line that was shown, and skips lines that were
// already shown.
const (
	late      = 10 * time.Second // maximum delay of a line
	pageLines = 500              // maximum number of lines of a group in memory
	known     = 20_000           // maximum number of remembered ids
)

// tail implements cloud.Tail. Its memory is limited to one page per group and the ids of the lines
// that were shown last.
type tail struct {
	account *Cloud
	groups  []string
	from    time.Time
	told    map[string]bool // ids of lines that were shown
	order   []string        // ring buffer of these ids
	next    int             // index of the oldest id in the ring buffer
}

func (c *Cloud) Tail(groups []string, from time.Time) cloud.Tail {
	return &tail{account: c, groups: groups, from: from, told: map[string]bool{}, order: make([]string, known)}
}

// line is a log line with the id that AWS assigned.
type line struct {
	cloud.Line
	id string
}

func (t *tail) Next(ctx context.Context, show func(cloud.Line) error) error {
	newest := t.from
	// Move t.from forward even after an error, so that shown lines are not read again.
	defer func() {
		if from := newest.Add(-late); from.After(t.from) {
			t.from = from
		}
	}()
	sources := make([]*source, len(t.groups))
	for i, g := range t.groups {
		sources[i] = &source{account: t.account, group: g, from: t.from}
	}
	for {
		first, err := earliest(ctx, sources)
		if first == nil || err != nil {
			return err
		}
		l := first.lines[0]
		first.lines = first.lines[1:]
		if t.told[l.id] {
			continue
		}
		if err := show(l.Line); err != nil {
			return err
		}
		t.remember(l.id)
		if l.At.After(newest) {
			newest = l.At
		}
	}
}

func (t *tail) remember(id string) {
	if old := t.order[t.next]; old != "" {
		delete(t.told, old)
	}
	t.told[id], t.order[t.next] = true, id
	t.next = (t.next + 1) % len(t.order)
}

// earliest returns the source with the earliest next line, or nil if all sources have ended.
func earliest(ctx context.Context, sources []*source) (*source, error) {
	var first *source
	for _, s := range sources {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		if len(s.lines) > 0 && (first == nil || s.lines[0].before(first.lines[0])) {
			first = s
		}
	}
	return first, nil
}

func (l line) before(other line) bool {
	return cmp.Or(l.At.Compare(other.At), strings.Compare(l.Group, other.Group)) < 0
}

// source reads the lines of one group since a time, page by page.
type source struct {
	account *Cloud
	group   string
	from    time.Time
	lines   []line
	token   *string
	ended   bool
}

// fill reads pages until it has a line or the group ends, because AWS may return empty pages.
func (s *source) fill(ctx context.Context) error {
	for len(s.lines) == 0 && !s.ended {
		page, err := s.account.logs.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{
			LogGroupName: &s.group, StartTime: aws.Int64(s.from.UnixMilli()), Limit: aws.Int32(pageLines), NextToken: s.token,
		})
		if err = Problem(err); problem.Is(err, problem.NotFound) {
			s.ended = true // the group was deleted, for example by destroy
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			s.lines = append(s.lines, line{cloud.Line{Group: s.group, At: time.UnixMilli(aws.ToInt64(e.Timestamp)).UTC(), Text: aws.ToString(e.Message)}, aws.ToString(e.EventId)})
		}
		slices.SortStableFunc(s.lines, func(a, b line) int { return a.At.Compare(b.At) })
		s.token, s.ended = page.NextToken, page.NextToken == nil
	}
	return nil
}
