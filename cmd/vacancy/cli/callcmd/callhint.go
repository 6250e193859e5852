package callcmd

import (
	"context"
	"errors"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// callHint explains a failed call to the operator of the host. The admin socket
// shows what callers may not see: that the vacant has children, one of which
// may have failed, or that it is a closed child, which looks like an unknown
// vacant in public.
func callHint(a *kit.App, ctx context.Context, err error, w kit.Where, id identity.ID) error {
	if h := new(kit.Hinted); errors.As(err, &h) {
		return err
	}
	kind := problem.Of(err).Kind
	if kind == problem.PaymentRequired {
		return kit.WithHint(err, "vacancy account link TENANT, for the account that is to pay, or vacancy credit TENANT DOLLARS")
	}
	failed, absent := kind.IsFailure() || kind == problem.Deadline, kind == problem.Misdirected
	if !failed && !absent {
		return err
	}
	plane := a.AdminAt(w)
	if plane == nil {
		return err
	}
	v, showErr := admin.ShowVacant.Call(ctx, plane, admin.One{Vacant: id.String()})
	if showErr != nil {
		return err
	}
	if absent && v.Closed && v.Parent != nil {
		parent := v.Parent.Short()
		if p, showErr := admin.ShowVacant.Call(ctx, plane, admin.One{Vacant: v.Parent.String()}); showErr == nil {
			parent = p.Name
		}
		return kit.WithHint(err, `vacancy graduate %s --capability "TEXT": it is a closed child of %s, and until it graduates only its parent and the parent's other children may call it`, v.Name, parent)
	}
	if page, listErr := admin.ListChildren.Call(ctx, plane, admin.ChildList{One: admin.One{Vacant: v.ID.String()}, Cursor: ""}); failed && listErr == nil && len(page.Children) > 0 {
		return kit.WithHint(err, "vacancy children %s", v.Name)
	}
	if failed && w.IsLocal(a) {
		return kit.WithHint(err, "vacancy logs %s --failed%s", v.Name, kit.DataArg(w.Data))
	}
	return err
}
