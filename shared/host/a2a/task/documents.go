package task

import "github.com/vacancy-host/vacancy/shared/store"

// taskPartition has what belongs to a task: the star is Ref.message. Events sort before the
// head, so a read of both sees no event that the head does not know of.
const taskPartition = "task#*"

// The documents of tasks. Events and configurations are sealed.
var (
	// HeadDocs hold the state of each task. The index lists the tasks of an owner at a
	// vacant, the newest status first.
	HeadDocs = store.Kind[head]{
		Shape: store.Shape{Name: "head of a task", Partition: taskPartition, Sort: "head", Index: "tasks#*#*", Verify: store.Unread},
		Codec: store.JSON[head](1),
	}
	EventDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "event of a task", Partition: taskPartition, Sort: "e#*", Verify: store.Unread},
		Codec: store.Bytes(),
	}
	// RecentDocs name the turns of the last minutes by the hash of payer, vacant and message, the newest
	// first.
	RecentDocs = store.Kind[recent]{
		Shape: store.Shape{Name: "recent turn", Partition: "recent#*", Sort: "*", Verify: store.Unread},
		Codec: store.JSON[recent](1),
	}
	// PushDocs are the push configurations. The index lists those whose deliveries have not
	// ended.
	PushDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "push configuration", Partition: taskPartition, Sort: "push#*", Index: "pushes", Verify: store.Unread},
		Codec: store.Bytes(),
	}
	// TurnDocs count the turns in the background of a vacant.
	TurnDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of turns", Partition: "turns#*", Sort: "background", Of: store.OfVacant, Verify: store.Unread},
		Codec: store.Count(),
	}
	// RunningDocs count the turns that run in the background, by share and day.
	RunningDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of running turns", Partition: "running#*", Sort: "*", Verify: store.Unread},
		Codec: store.Count(),
	}
	// PushedDocs count what was pushed: of a task, and of a sender by the hour.
	PushedDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "count of what was pushed", Partition: "pushed#*", Sort: "*", Verify: store.Unread},
		Codec: store.Count(),
	}
)
