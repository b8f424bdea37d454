// What a family's config.json leaves unsaid: one row of a table for each family.
#pragma once

#include <cstdint>
#include <string_view>

namespace nvllm {

// Which layers see a window.
enum class Windows : uint8_t { none, all, switched, alternating, five_of_six };

// What a family's config.json leaves unsaid. 0 in a size: it must be said, or follows from others.
struct FamilyDefaults {
    std::string_view model_type;
    const char* architecture;
    int64_t vocab_size = 0;
    int64_t num_heads = 0;
    int64_t num_kv_heads = 0;  // 0: as many as heads
    int64_t head_dim = 0;      // 0: hidden_size / heads
    int64_t max_positions = 2048;
    double epsilon = 1e-6;
    double theta = 10000.0;
    const char* activation = "silu";
    bool tied = false;
    Windows windows = Windows::none;
    int64_t window = 0;  // where the key is absent
    bool encoder = false;
    int64_t token_types = 0;           // where the key is absent
    bool positions_after_pad = false;  // counted from the padding token's id on
};

// By model_type; a file without one, or with an unknown one, is what its architecture says. Of
// families that are not read: the file's own words, and no demands.
const FamilyDefaults& family_defaults(std::string_view model_type, std::string_view architecture);

// Whether a model of this architecture has no output matrix.
bool is_body_of_decoder(std::string_view architecture);

}  // namespace nvllm
