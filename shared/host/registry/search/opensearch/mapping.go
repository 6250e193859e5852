package opensearch

// Fields of an entry. The fields of words exist once for each group.
const (
	fieldJoined  = "joined"
	fieldPrice   = "price"
	fieldWeight  = "weight"  // ScoreSteps + the score's step: a factor of the rank
	fieldWords   = "words"   // words0 …: keywords, and their trigrams below
	fieldForms   = "forms"   // forms0 …: the common parts of the words' forms
	fieldRuns    = "runs"    // runs0 …: the words of scripts without spaces
	fieldTexts   = "texts"   // the declared texts, for substrings of any length
	fieldTag     = "tag"     // exactly
	fieldFamily  = "family"  // the listing's, exactly
	fieldClaimed = "claimed" // the claimed one, exactly

	fieldMark = "mark" // of the document with the mark, which is not an entry
	markID    = "mark"
)

// The analyzers, which also name the subfields of a text: all grams of one
// length with positions, so that successive grams are a phrase.
var grams = []string{"", "g1", "g2", "g3"}

func mapping(alias string, shards, replicas int) object {
	tokenizers, analyzers := object{}, object{}
	for n, name := range grams[1:] {
		// No token_chars: every rune is part of a gram.
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
			// Only ids are returned. The store has the texts.
			"_source":    object{"includes": []string{fieldMark}},
			"properties": properties,
		},
		"aliases": object{alias: object{"is_write_index": true}},
	}
}

// keyword is a field that is found as it is, and never sorted by.
func keyword(below object) object {
	k := object{"type": "keyword", "doc_values": false}
	if below != nil {
		k["fields"] = below
	}
	return k
}

// gram is a text field of grams of one length, with subfields.
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
