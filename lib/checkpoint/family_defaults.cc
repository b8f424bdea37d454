// Looking up families and their keys.
#include "lib/checkpoint/family_defaults.h"

#include <string>

namespace nvllm {
namespace {

constexpr FamilyDefaults kUnknownFamily = {.model_type = ""};

}  // namespace

const FamilyDefaults& find_family(FamilyTable families, std::string_view model_type,
                                  std::string_view architecture) {
    for (const FamilyDefaults& family : families) {
        const bool is_named =
            family.model_type == model_type || contains_word(family.other_types, model_type);
        if (is_named) return family;
    }
    for (const FamilyDefaults& family : families) {
        if (family.architecture == architecture) return family;
    }
    return kUnknownFamily;
}

bool contains_word(std::string_view words, std::string_view word) {
    bool found = false;
    for_each_word(words, [&](std::string_view other) { found = found || other == word; });
    return found;
}

KeySet foreign_keys(FamilyTable families, const FamilyDefaults& family) {
    KeySet keys;
    for (const FamilyDefaults& other : families) {
        for_each_word(other.own_keys, [&](std::string_view key) {
            if (!reads_key(family, key)) keys.emplace(key);
        });
    }
    for_each_word(family.only_values, [&](std::string_view words) {
        keys.erase(std::string(words.substr(0, words.find('='))));
    });
    return keys;
}

}  // namespace nvllm
