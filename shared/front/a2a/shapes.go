package a2a

import (
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The JSON of A2A 1.0, for API descriptions only. Package a2awire reads and writes the JSON.
type (
	// Part has exactly one of Text, URL, Raw (in base64) and Data.
	Part struct {
		Text      string          `json:"text,omitempty"`
		URL       string          `json:"url,omitempty"`
		Raw       []byte          `json:"raw,omitempty"`
		Data      json.RawMessage `json:"data,omitempty"`
		Filename  string          `json:"filename,omitempty"`
		MediaType string          `json:"mediaType,omitempty"`
		Metadata  map[string]any  `json:"metadata,omitempty"`
	}
	Message struct {
		ID         string         `json:"messageId"`
		Context    string         `json:"contextId,omitempty"`
		Task       string         `json:"taskId,omitempty"`
		Role       string         `json:"role"`
		Parts      []Part         `json:"parts"`
		Metadata   map[string]any `json:"metadata,omitempty"`
		Extensions []string       `json:"extensions,omitempty"`
		References []string       `json:"referenceTaskIds,omitempty"`
	}
	Artifact struct {
		ID          string         `json:"artifactId"`
		Name        string         `json:"name,omitempty"`
		Description string         `json:"description,omitempty"`
		Parts       []Part         `json:"parts"`
		Metadata    map[string]any `json:"metadata,omitempty"`
		Extensions  []string       `json:"extensions,omitempty"`
	}
	Status struct {
		State   string   `json:"state"`
		Message *Message `json:"message,omitempty"`
		Time    string   `json:"timestamp"`
	}
	Task struct {
		ID        string         `json:"id"`
		Context   string         `json:"contextId"`
		Status    Status         `json:"status"`
		Artifacts []Artifact     `json:"artifacts,omitempty"`
		History   []Message      `json:"history,omitempty"`
		Metadata  map[string]any `json:"metadata,omitempty"`
	}
	Tasks struct {
		Tasks []Task `json:"tasks"`
		Next  string `json:"nextPageToken"`
		Size  int    `json:"pageSize"`
		Total int    `json:"totalSize,omitempty"` // omitted above 1,000
	}
	Send struct {
		Message  Message        `json:"message"`
		Config   *SendConfig    `json:"configuration,omitempty"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	SendConfig struct {
		OutputModes []string    `json:"acceptedOutputModes,omitempty"`
		Push        *PushConfig `json:"taskPushNotificationConfig,omitempty"`
		History     uint64      `json:"historyLength,omitempty"`
		Immediately bool        `json:"returnImmediately,omitempty"`
	}
	// Sent contains the task of a message, or the message that answers it.
	Sent struct {
		Task    *Task    `json:"task,omitempty"`
		Message *Message `json:"message,omitempty"`
	}
	// Streamed is an event of a task. Exactly one member is set.
	Streamed struct {
		Task     *Task           `json:"task,omitempty"`
		Message  *Message        `json:"message,omitempty"`
		Status   *StatusUpdate   `json:"statusUpdate,omitempty"`
		Artifact *ArtifactUpdate `json:"artifactUpdate,omitempty"`
	}
	StatusUpdate struct {
		Task    string `json:"taskId"`
		Context string `json:"contextId"`
		Status  Status `json:"status"`
	}
	// ArtifactUpdate is a piece of an artifact. Unless Append is set, it replaces the earlier
	// pieces.
	ArtifactUpdate struct {
		Task     string   `json:"taskId"`
		Context  string   `json:"contextId"`
		Artifact Artifact `json:"artifact"`
		Append   bool     `json:"append"`
		Last     bool     `json:"lastChunk"`
	}
	PushConfig struct {
		Task           string          `json:"taskId,omitempty"`
		ID             string          `json:"id,omitempty"`
		URL            string          `json:"url"`
		Token          string          `json:"token,omitempty"`
		Authentication *Authentication `json:"authentication,omitempty"`
	}
	Authentication struct {
		Scheme      string `json:"scheme,omitempty"`
		Credentials string `json:"credentials,omitempty"`
	}
	PushConfigs struct {
		Configs []PushConfig `json:"configs"`
		Next    string       `json:"nextPageToken"`
	}
	// Card contains the members that all forms of an agent card have.
	Card struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		Version      string          `json:"version"`
		Capabilities map[string]any  `json:"capabilities"`
		Interfaces   []Interface     `json:"supportedInterfaces"`
		InputModes   []string        `json:"defaultInputModes"`
		OutputModes  []string        `json:"defaultOutputModes"`
		Skills       []Skill         `json:"skills"`
		Signatures   []CardSignature `json:"signatures"`
	}
	Interface struct {
		URL     string `json:"url"`
		Binding string `json:"protocolBinding"`
		Version string `json:"protocolVersion"`
	}
	Skill struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
	}
	// CardSignature is a detached JWS over one form of a card.
	CardSignature struct {
		Protected string `json:"protected"`
		Signature string `json:"signature"`
	}
	KeySet struct {
		Keys []Key `json:"keys"`
	}
	Key struct {
		Type      string      `json:"kty"`
		Curve     string      `json:"crv"`
		Algorithm string      `json:"alg"`
		Use       string      `json:"use"`
		ID        identity.ID `json:"kid"`
		X         string      `json:"x"`
	}
	// Failure is the body of an error response. A2A defines only the member Error.
	Failure struct {
		Error  *restError `json:"error,omitempty"`
		Detail string     `json:"detail,omitempty"`
		Code   string     `json:"code,omitempty"`
		Field  string     `json:"field,omitempty"`
	}
)
