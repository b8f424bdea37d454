// Post-processors: the special tokens around an encoded text, or around and between two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/tokenizer/json_view.h"

namespace nvllm {

// One of two texts, or the ids of a special token, with the token type that models with types see.
struct PairPiece {
    enum class Kind : uint8_t { first, second, special };

    Kind kind = Kind::special;
    int32_t type = 0;
    std::vector<int32_t> ids = {};  // of a special token
};

// The ids of two texts as one, and where the second begins.
struct EncodedPair {
    std::vector<int32_t> ids;
    int32_t second_text = 0;  // the first position of type 1, to the end; 0: there is none
};

// How many ids may stay of two texts; empty: all.
struct PairLimits {
    // Of the whole. Ids are cut off the end of the longer text until both are as long, then of
    // both, as "longest_first" of transformers does.
    std::optional<int32_t> max_tokens;
    std::optional<int32_t> max_second;  // of the second text, special tokens not counted
};

// What goes before and behind the ids of one text. Immutable; thread-safe.
struct PostProcessor {
    std::vector<int32_t> before;
    std::vector<int32_t> behind;
    // Of two texts; empty: each as a text of its own, the second of type 1.
    std::vector<PairPiece> pair = {};
    // The file has two templates for pairs, one within the other: none is used.
    bool has_nested_pairs = false;

    std::vector<int32_t> apply(std::vector<int32_t> ids) const;
    // Throws Error{bad_data} when the limits leave no id of a text, for nested templates, and for
    // one whose types are not 0 and then 1.
    EncodedPair apply_pair(std::vector<int32_t> first, std::vector<int32_t> second,
                           const PairLimits& limits) const;
};

// The "post_processor" section of tokenizer.json. Throws Error{bad_data} for one it does not know.
PostProcessor load_post_processor(const JsonView& section);

}  // namespace nvllm
