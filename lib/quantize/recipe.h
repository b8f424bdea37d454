// What is to be done to a model: a list of modifiers, from flags or from a file in llm-compressor's
// shape.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/quantization_config.h"
#include "lib/quantize/methods/algorithm.h"

namespace nvllm::quantize {

// Channels of what `smooth` gives are divided by factors, with which the columns of the `balance`
// linears are multiplied. Names, or "re:" and a regular expression.
struct ScalingMapping {
    std::string smooth;
    std::vector<std::string> balance;
    bool operator==(const ScalingMapping&) const = default;
};

struct ScalingOptions {
    double smoothing_strength = 0.5;       // smoothquant's alpha
    int64_t grid = 20;                     // awq: how many exponents are tried
    bool duo_scaling = true;               // awq: the weights' magnitudes count too
    bool clips = false;                    // awq: ranges of groups are searched as well
    std::vector<ScalingMapping> mappings;  // empty: as the model's family has them
    bool operator==(const ScalingOptions&) const = default;
};

// One step over all linears that it is for.
struct Modifier {
    std::string method;  // of methods()
    // What linears are quantized to; empty: they are not.
    std::vector<QuantizationGroup> groups;
    // What keys and values are quantized to, all linears aside: float8_cache_scheme() or empty.
    std::optional<QuantizationArguments> kv_cache_scheme;
    std::vector<std::string> targets = {"Linear"};  // where there are no groups
    std::vector<std::string> ignore;
    SolverOptions solver;
    ScalingOptions scaling;
    uint64_t seed = 0;  // rotation: of its signs
};

struct Recipe {
    std::vector<Modifier> modifiers;
    // Linears of which two of four values were made zero are stored without them, as
    // sparse-24-bitmask.
    bool compresses_zeros = false;
    // An entry of an ignore list that matches no linear is a mistake, not only noted: recipes are
    // shared between models, flags are typed for one.
    bool ignore_must_match = false;
};

struct Method {
    const char* name;
    const char* summary;
    bool scales;         // changes channels before matrices are solved
    const char* solver;  // of solvers(); null: it solves nothing by itself
    bool needs_calibration;
};

// rotation, rtn, gptq, awq, smoothquant, sparsegpt, magnitude.
std::span<const Method> methods();
// Throws usage that names the nearest one.
const Method& find_method(std::string_view name);

// What flags ask for.
struct RecipeFlags {
    std::string scheme = "W4A16";  // "none": pruning alone
    std::vector<std::string> methods = {"gptq"};
    std::string group_size;  // "128", "channel"; empty: the scheme's own
    std::vector<std::string> targets;
    std::vector<std::string> ignore = {"lm_head"};
    std::string actorder;        // off, static, group
    std::string mask_structure;  // "2:4"
    bool float8_cache = false;   // keys and values in float8_e4m3
    SolverOptions solver;
    ScalingOptions scaling;
    uint64_t seed = 0;
};

// Throws usage.
Recipe recipe_from_flags(const RecipeFlags& flags);

// How all that is quantized is stored: "awq", "gptq", "gptq_v2"; "compressed-tensors": as schemes
// have it.
void set_format(Recipe& recipe, const std::string& format);

// Groups in another order (actorder group) get the static one where they would be stored as
// compressed-tensors, of which version 0.19 and later refuse them. Returns what was changed, in
// words for the user.
std::vector<std::string> settle_actorder(Recipe& recipe);

// "2:4": of four values two become zeros; "0:0" and "unstructured": none. Throws usage.
MaskStructure parse_mask_structure(const std::string& text);

// For the journal and the report.
nlohmann::ordered_json recipe_json(const Recipe& recipe);

bool needs_calibration(const Recipe& recipe);

}  // namespace nvllm::quantize
