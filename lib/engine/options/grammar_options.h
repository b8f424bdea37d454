// The flags that say what all answers of a command line are held to.
#pragma once

#include <optional>
#include <string>

#include "lib/cli/option_list.h"
#include "lib/grammar/grammar_spec.h"

namespace nvllm {

struct GrammarFlags {
    std::string json_schema;  // a file, or the schema itself
    bool json_object = false;
    std::string grammar;  // a file, or the grammar itself
    std::string regex;
    std::string choice;  // a JSON list of texts

    // Nothing without such a flag. Throws usage for several of them and for a choice that is no
    // list of texts; the reader's errors for a file.
    std::optional<GrammarSpec> spec() const;
};

OptionList<GrammarFlags> grammar_options();

// A JSON schema: the text that is given, or of the file that it names. What has no brace cannot be
// a schema that says anything, so it must be a file.
GrammarSpec read_schema_argument(const std::string& given);

}  // namespace nvllm
