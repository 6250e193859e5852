package scaffold

import "slices"

type Template struct {
	Name  string
	About string
	Yours string // part of the program that its owner writes
	Needs string // requirements in addition to the language, or ""
	Set   string // what the owner must set first, or ""

	languages    []Language // if there are several, each has a folder
	extraFolders []string   // folders with further files
	commands     []string
}

const (
	answerFunction = "the function answer"
	callCommand    = `vacancy call {{.Name}} "hello"`
)

func Templates() []Template {
	// The default template is the first.
	return []Template{
		{
			Name: "basic", About: "one text for each question, with nothing but the standard library", Yours: answerFunction,
			languages: []Language{golang, python, typescript},
			commands:  []string{callCommand},
		},
		{
			Name: "stream", About: "answers in pieces, which callers see as they come", Yours: answerFunction,
			languages: []Language{python}, extraFolders: []string{"server"},
			commands: []string{`vacancy call http://127.0.0.1:8080/v/{{.Name}} "a long letter" --stream   # at the address that watch prints`},
		},
		{
			Name: "openai", About: "a program that asks a model by OpenAI's API, at OpenAI or elsewhere", Yours: answerFunction,
			Set: "Set OPENAI_API_KEY where the program runs. " +
				"For another server with that API set OPENAI_BASE_URL, such as http://127.0.0.1:11434/v1 for Ollama, and OPENAI_MODEL",
			languages: []Language{python}, extraFolders: []string{"server"},
			commands: []string{`vacancy call {{.Name}} "I am Ann" --context letters`, `vacancy call {{.Name}} "who am I?" --context letters`},
		},
		{
			Name: "langgraph", About: "a graph of LangGraph, which remembers the threads of its callers", Yours: "the graph",
			Needs:     "LangGraph, which pip fetches into .venv",
			languages: []Language{pythonPackages}, extraFolders: []string{"server"},
			commands: []string{`vacancy call {{.Name}} "one" --context letters`, `vacancy call {{.Name}} "two" --context letters`},
		},
		{
			Name: "mcp-tools", About: "a model with tools of your own, by the Model Context Protocol", Yours: "the tools",
			Needs:     "Ollama with llama3.2, or another model in agent.md",
			languages: []Language{pythonTools},
			commands:  []string{`vacancy call {{.Name}} "what do you know about owls?"`, "vacancy logs {{.Name}}", "vacancy show {{.Name}}"},
		},
		{
			Name: "paid", About: "an agent with a price, and the commands that set it and pay it", Yours: answerFunction,
			languages: []Language{python}, extraFolders: []string{"server"},
			commands: []string{
				"vacancy price {{.Name}} 0.002", "vacancy account open acme", "vacancy credit acme 10 --key invoice-1",
				"vacancy keys create acme --name trial   # prints KEY",
				"curl -H 'Authorization: Bearer KEY' -d hello http://127.0.0.1:8080/v/{{.Name}}/text   # at the address that watch prints",
				"vacancy account show acme",
			},
		},
	}
}

func TemplateNames() (names []string) {
	for _, t := range Templates() {
		names = append(names, t.Name)
	}
	return names
}

func (t *Template) LanguageNames() (names []string) {
	for _, l := range t.languages {
		names = append(names, l.Name)
	}
	return names
}

type Language struct {
	Name    string
	Program string // file that the owner writes
	Start   string
	Test    string
	// Markers lists files that identify such a program. If InstallMarker exists, StartInstalled
	// replaces Start.
	Markers                       []string
	InstallMarker, StartInstalled string
	// Tools is true if the program serves tools to a model instead of answering calls.
	Tools bool
}

const (
	installCommand = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && "
	// This command also completes an interrupted install.
	updateCommand = ".venv/bin/pip install -q -r requirements.txt && "
)

var (
	golang         = Language{"go", "main.go", "go run .", "go test ./...", []string{"go.mod"}, "", "", false}
	pythonPackages = Language{
		"python", "agent.py", installCommand + ".venv/bin/python agent.py", installCommand + ".venv/bin/python -m unittest",
		[]string{"agent.py", "requirements.txt"}, ".venv", updateCommand + ".venv/bin/python agent.py", false,
	}
	pythonTools = Language{"python", "tools.py", "python3 tools.py", "python3 -m unittest", []string{"tools.py"}, "", "", true}
	python      = Language{"python", "agent.py", "python3 agent.py", "python3 -m unittest", []string{"agent.py"}, "", "", false}
	typescript  = Language{"typescript", "agent.ts", "npm install && npm start", "npm install && npm test", []string{"package.json"}, "node_modules", "npm start", false}
)

// FindLanguage returns the language of the program in a folder and the command that starts it. The
// command is "" if there is no program.
func FindLanguage(exists func(file string) bool) (l Language, start string) {
	for _, l := range []Language{golang, pythonPackages, python, pythonTools, typescript} {
		switch {
		case slices.ContainsFunc(l.Markers, func(file string) bool { return !exists(file) }):
		case l.InstallMarker != "" && exists(l.InstallMarker):
			return l, l.StartInstalled
		default:
			return l, l.Start
		}
	}
	return Language{}, ""
}
