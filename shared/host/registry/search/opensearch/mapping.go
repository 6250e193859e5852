package opensearch

// These are the fields of an entry. Each field that contains words exists once per group, with the
// group's number as suffix.
const (
	fieldJoined  = "joined"
	fieldPrice   = "price"
	fieldWeight  = "weight"  // ScoreSteps + ScoreStep(score), a factor of the rank
	fieldWords   = "words"   // words0 and so on: words as keywords, with subfields for their trigrams
	fieldForms   = "forms"   // forms0 and so on: stems of the words
	fieldRuns    = "runs"    // runs0 and so on: words of scripts without spaces
	fieldTexts   = "texts"   // declared texts, searched for substrings of any length
	fieldTag     = "tag"     // exact value
	fieldFamily  = "family"  // exact family in the listing
	fieldClaimed = "claimed" // exact family that the publisher claims

	fieldMark = "mark" // field of the document that holds the mark and is not an entry
	markID    = "mark"
)

// grams contains the names of the analyzers by the length of their grams. The names are also the
// names of a text's subfields. An analyzer returns all grams of one length with their positions, so
// that a phrase matches consecutive grams.
var grams = []string{"", "g1", "g2", "g3"}

func mapping(alias string, shards, replicas int) object {
	tokenizers, analyzers := object{}, object{}
	for n, name := range grams[1:] {
		// token_chars is not set, so all runes are part of grams.
		tokenizers[name] = object{"type": "ngram", "min_gram": n + 1, "max_gram": n + 1}
		analyzers[name] = object{"type": "custom", "tokenizer": name}
	}
	properties := object{
		fieldJoined:  object{"type": "long"},
		fieldPrice:   object{"type": "long"},
		fieldWeight:  object{"type": "integer"},
		fieldTag:     keyword(nil),
		fieldFamily:  keyword(nil),
		fieldClaimed: keyword(nil),
		fieldMark:    object{"type": "keyword", "index": false, "doc_values": false},
		fieldTexts:   gram("g1", "g2", "g3"),
	}
	for _, g := range groups() {
		properties[fieldWords+g] = keyword(object{"g3": gram("g3")})
		properties[fieldForms+g] = keyword(nil)
		properties[fieldRuns+g] = gram("g1", "g2")
	}
	return object{
		"settings": object{
			"number_of_shards": shards, "number_of_replicas": replicas,
			"refresh_interval": "-1", // only Apply refreshes
			"analysis":         object{"tokenizer": tokenizers, "analyzer": analyzers},
		},
		"mappings": object{
			"dynamic": "strict",
			// A search returns only ids. The store has the texts.
			"_source":    object{"includes": []string{fieldMark}},
			"properties": properties,
		},
		"aliases": object{alias: object{"is_write_index": true}},
	}
}

func keyword(below object) object {
	k := object{"type": "keyword", "doc_values": false}
	if below != nil {
		k["fields"] = below
	}
	return k
}

func gram(length string, below ...string) object {
	text := object{"type": "text", "analyzer": length, "norms": false}
	if len(below) > 0 {
		fields := object{}
		for _, b := range below {
			fields[b] = gram(b)
		}
		text["fields"] = fields
	}
	return text
}
