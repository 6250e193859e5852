package cloud

import (
	"context"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// ReadSettings returns the settings that a stage stores. They are nil if the stage is not deployed,
// or if an earlier release stored none. The stack "functions" comes first, because a deployment
// updates it last. After a failed first deployment, only the stack "data" has the settings.
func ReadSettings(ctx context.Context, c Cloud, stageName string) (stored map[string]string, isDeployed bool, err error) {
	for _, short := range []string{"functions", "data"} {
		name := stage.FullName(stageName, short)
		s, err := c.Stack(ctx, name)
		if problem.Is(err, problem.NotFound) || err == nil && !s.IsDeployed() {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		isDeployed = true
		if text, ok := s.Outputs[setting.StoredOutput]; ok {
			if stored, err = setting.ParseStored(text); err != nil {
				err = problem.Wrap(problem.Damaged, err, "the settings of stage %s cannot be read: stack %s, %s", stageName, name, err)
			}
			return stored, true, err
		}
	}
	return nil, isDeployed, nil
}
