package task

import (
	"bytes"

	"github.com/vacancy-host/vacancy/shared/store"
)

// taskPartition contains the documents of a task. Events sort before the head, so a read of both
// never returns a head that is older than the events.
const taskPartition = "task#*"

// Documents of tasks. Events, traces, logs and push configurations are sealed.
var (
	HeadDocs = store.DocKind[head]{
		Shape: store.Shape{Name: "head of a task", Partition: taskPartition, Sort: "head", Index: "tasks#*#*", Verify: store.VerifySkip},
		Codec: store.Codec[head]{Decode: decodeHead, Encode: encodeHead},
	}
	EventDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "event of a task", Partition: taskPartition, Sort: "e#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	RecentDocs = store.DocKind[recentEntry]{
		Shape: store.Shape{Name: "recent turn", Partition: "recent#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[recentEntry](1),
	}
	// TraceDocs sorts after the head, so that reading a task does not read its trace.
	TraceDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "trace of a task", Partition: taskPartition, Sort: "trace#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	LogDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "log of a task", Partition: taskPartition, Sort: "log#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// PushDocs is indexed while the deliveries of a configuration have not ended.
	PushDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "push configuration", Partition: taskPartition, Sort: "push#*", Index: "pushes", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	BackgroundCountDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of turns", Partition: "turns#*", Sort: "background", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	DispatchedDocs = store.DocKind[dispatchedEntry]{
		Shape: store.Shape{Name: "dispatched task", Partition: "team#*", Sort: "*", Index: "team#*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[dispatchedEntry](1),
	}
	UnfinishedDocs = store.DocKind[dispatchedEntry]{
		Shape: store.Shape{Name: "unfinished task", Partition: "open#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[dispatchedEntry](1),
	}
	RunningCountDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of running turns", Partition: "running#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// PushedByteDocs counts bytes per task, and per sender and hour.
	PushedByteDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "count of what was pushed", Partition: "pushed#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
)

// Earlier versions would mistake a dispatched task for a lost call and fail the task. They cannot
// read its head, because the head has format 2.
var (
	plainHeadCodec      = store.JSONCodec[head](1)
	dispatchedHeadCodec = store.JSONCodec[head](2)
)

func decodeHead(d store.Doc) (head, error) {
	if bytes.HasPrefix(d.Data, []byte(`{"format":2,`)) {
		return dispatchedHeadCodec.Decode(d)
	}
	return plainHeadCodec.Decode(d)
}

func encodeHead(h head) ([]byte, error) {
	if h.Dispatch != nil {
		return dispatchedHeadCodec.Encode(h)
	}
	return plainHeadCodec.Encode(h)
}
