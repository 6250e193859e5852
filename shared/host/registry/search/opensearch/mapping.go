package opensearch

// These are the fields of an entry. Each field that contains words exists once per group, with the
// group's number as suffix.
const (
	fieldFirstSeq      = "joined"
	fieldPrice         = "price"
	fieldWeight        = "weight" // ScoreSteps + ScoreStep(score), a factor of the rank
	fieldWords         = "words"  // words as keywords, with subfields for their trigrams
	fieldStems         = "forms"  // stems of the words
	fieldUnspaced      = "runs"   // words of scripts without spaces
	fieldTexts         = "texts"  // declared texts, searched for substrings of any length
	fieldTag           = "tag"
	fieldFamily        = "family"
	fieldClaimedFamily = "claimed"

	fieldMark = "mark" // not a field of an entry
	markID    = "mark"
)

// gramAnalyzers contains the names of the analyzers by the length of their grams. The names are
// also the names of a text's subfields.
var gramAnalyzers = []string{"", "g1", "g2", "g3"}

func indexBody(alias string, shards, replicas int) object {
	tokenizers, analyzers := object{}, object{}
	for n, name := range gramAnalyzers[1:] {
		// token_chars is not set, so all runes are part of grams.
		tokenizers[name] = object{"type": "ngram", "min_gram": n + 1, "max_gram": n + 1}
		analyzers[name] = object{"type": "custom", "tokenizer": name}
	}
	properties := object{
		fieldFirstSeq:      object{"type": "long"},
		fieldPrice:         object{"type": "long"},
		fieldWeight:        object{"type": "integer"},
		fieldTag:           keywordField(nil),
		fieldFamily:        keywordField(nil),
		fieldClaimedFamily: keywordField(nil),
		fieldMark:          object{"type": "keyword", "index": false, "doc_values": false},
		fieldTexts:         gramField("g1", "g2", "g3"),
	}
	for _, g := range groupNames() {
		properties[fieldWords+g] = keywordField(object{"g3": gramField("g3")})
		properties[fieldStems+g] = keywordField(nil)
		properties[fieldUnspaced+g] = gramField("g1", "g2")
	}
	return object{
		"settings": object{
			"number_of_shards": shards, "number_of_replicas": replicas,
			"refresh_interval": "-1", // only Apply refreshes
			"analysis":         object{"tokenizer": tokenizers, "analyzer": analyzers},
		},
		"mappings": object{
			"dynamic":    "strict",
			"_source":    object{"includes": []string{fieldMark}},
			"properties": properties,
		},
		"aliases": object{alias: object{"is_write_index": true}},
	}
}

func keywordField(subfields object) object {
	k := object{"type": "keyword", "doc_values": false}
	if subfields != nil {
		k["fields"] = subfields
	}
	return k
}

func gramField(analyzer string, subfields ...string) object {
	text := object{"type": "text", "analyzer": analyzer, "norms": false}
	if len(subfields) > 0 {
		fields := object{}
		for _, subfield := range subfields {
			fields[subfield] = gramField(subfield)
		}
		text["fields"] = fields
	}
	return text
}
