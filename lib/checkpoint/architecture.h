// Which of the known families computes the text of a config.json's architecture, if one does.
#pragma once

#include <string>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/family_defaults.h"

namespace nvllm {

struct Architecture {
    std::string name;            // as the file says, else the family's
    std::string text;            // the class that computes its text: a family's; empty: none
    bool generates = false;      // it has an output matrix
    bool drops_head = false;     // it was saved with a head of another task, which is not used
    bool classifies = false;     // it was saved with a head of classes for whole texts
    bool is_multi_part = false;  // other parts take pictures or sound
    std::string refusal;         // why there is none, and what to do; empty: there is one
};

// `document` is the whole file, `settings` those of its text part (text_part.h), whose model_type
// chose `family`. Throws bad_data for keys of another type.
Architecture resolve_architecture(const nlohmann::json& document, const ConfigFields& settings,
                                  const FamilyDefaults& family, FamilyTable families);

// The family that an architecture's name is one of, by the name alone.
const FamilyDefaults& family_of_architecture(FamilyTable families, std::string_view name);

}  // namespace nvllm
