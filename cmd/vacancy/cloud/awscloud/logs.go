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

func (c *Cloud) LogGroups(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(c.logs, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, ToProblem(err)
		}
		for _, g := range page.LogGroups {
			names = append(names, aws.ToString(g.LogGroupName))
		}
	}
	return names, nil
}

// AWS may deliver a line some seconds late, when newer lines were already shown. Therefore each
// read starts before the last shown line, and skips lines that were already shown.
const (
	maxLineDelay = 10 * time.Second
	maxPageLines = 500 // limit of the lines per group in memory
	maxShownIDs  = 20_000
)

type logTail struct {
	cloud      *Cloud
	groups     []string
	startTime  time.Time
	shownIDs   map[string]bool // ids of lines that were shown
	shownOrder []string        // ring buffer of shownIDs
	nextSlot   int             // index of the oldest id in the ring buffer
}

func (c *Cloud) TailLogs(groups []string, from time.Time) cloud.LogTail {
	return &logTail{cloud: c, groups: groups, startTime: from, shownIDs: map[string]bool{}, shownOrder: make([]string, maxShownIDs)}
}

type identifiedLine struct {
	cloud.LogLine
	id string
}

func (t *logTail) Next(ctx context.Context, show func(cloud.LogLine) error) error {
	newest := t.startTime
	// Move t.startTime forward even after an error, so that shown lines are not read again.
	defer func() {
		if from := newest.Add(-maxLineDelay); from.After(t.startTime) {
			t.startTime = from
		}
	}()
	sources := make([]*groupReader, len(t.groups))
	for i, g := range t.groups {
		sources[i] = &groupReader{cloud: t.cloud, group: g, startTime: t.startTime}
	}
	for {
		next, err := findEarliest(ctx, sources)
		if next == nil || err != nil {
			return err
		}
		l := next.lines[0]
		next.lines = next.lines[1:]
		if t.shownIDs[l.id] {
			continue
		}
		if err := show(l.LogLine); err != nil {
			return err
		}
		t.rememberShown(l.id)
		if l.Time.After(newest) {
			newest = l.Time
		}
	}
}

func (t *logTail) rememberShown(id string) {
	if oldestID := t.shownOrder[t.nextSlot]; oldestID != "" {
		delete(t.shownIDs, oldestID)
	}
	t.shownIDs[id], t.shownOrder[t.nextSlot] = true, id
	t.nextSlot = (t.nextSlot + 1) % len(t.shownOrder)
}

// findEarliest returns the source with the earliest next line, or nil if all sources have ended.
func findEarliest(ctx context.Context, sources []*groupReader) (*groupReader, error) {
	var first *groupReader
	for _, s := range sources {
		if err := s.fetchLines(ctx); err != nil {
			return nil, err
		}
		if len(s.lines) > 0 && (first == nil || s.lines[0].isBefore(first.lines[0])) {
			first = s
		}
	}
	return first, nil
}

func (l identifiedLine) isBefore(other identifiedLine) bool {
	return cmp.Or(l.Time.Compare(other.Time), strings.Compare(l.Group, other.Group)) < 0
}

type groupReader struct {
	cloud     *Cloud
	group     string
	startTime time.Time
	lines     []identifiedLine
	nextToken *string
	hasEnded  bool
}

// fetchLines reads pages until it has a line or the group ends, because AWS may return empty pages.
func (s *groupReader) fetchLines(ctx context.Context) error {
	for len(s.lines) == 0 && !s.hasEnded {
		page, err := s.cloud.logs.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{
			LogGroupName: &s.group, StartTime: aws.Int64(s.startTime.UnixMilli()), Limit: aws.Int32(maxPageLines), NextToken: s.nextToken,
		})
		if err = ToProblem(err); problem.Is(err, problem.NotFound) {
			s.hasEnded = true // the group was deleted, for example by destroy
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			s.lines = append(s.lines, identifiedLine{cloud.LogLine{Group: s.group, Time: time.UnixMilli(aws.ToInt64(e.Timestamp)).UTC(), Text: aws.ToString(e.Message)}, aws.ToString(e.EventId)})
		}
		slices.SortStableFunc(s.lines, func(a, b identifiedLine) int { return a.Time.Compare(b.Time) })
		s.nextToken, s.hasEnded = page.NextToken, page.NextToken == nil
	}
	return nil
}
