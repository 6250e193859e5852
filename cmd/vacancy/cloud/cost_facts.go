package cloud

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Templates returns the templates of a stage's deployed stacks: NotFound if
// there are none.
func (c *Cloud) Templates(ctx context.Context, stageName string) ([][]byte, error) {
	var found [][]byte
	for _, short := range stage.Stacks() {
		name := stage.Whole(stageName, short)
		s, err := c.Stack(ctx, name)
		if problem.Is(err, problem.NotFound) || err == nil && !s.Deployed() {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := c.Template(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, b)
	}
	if len(found) == 0 {
		return nil, problem.New(problem.NotFound, "stage %s is not deployed to %s", stageName, c.cfg.Region)
	}
	return found, nil
}

// CallLines reads the log lines of a stage's calls since a time, at most most
// lines, and reports whether there were more. A stage without the log has no
// calls.
func (c *Cloud) CallLines(ctx context.Context, stage string, since time.Time, most int) (r cost.Real, more bool, err error) {
	n := 0
	err = c.lines(ctx, "/vacancy/"+stage+"/message", "wcu", since, func(_ time.Time, line []byte) bool {
		if n == most {
			more = true
			return false
		}
		n++
		r.Add(line)
		return true
	})
	if problem.Is(err, problem.NotFound) {
		err = nil
	}
	return r, more, err
}
